//! The modules of the Redis layers: the one place that names them.

use std::sync::LazyLock;

use quartet_layer_redis::command_set::Commands;
use quartet_layer_redis::commands;
use quartet_layer_redis::module::Module;
/// Figures of search, for the metrics.
pub use quartet_redis_search as search;
use quartet_redis_series::SeriesModule;
use quartet_redis_sketches::SketchModule;

/// The modules, a row each, in the order of the table of commands.
const MODULES: &[&dyn Module] = &[&search::SearchModule, &SketchModule, &SeriesModule];

/// Every command of the Redis layers.
pub fn commands() -> &'static Commands {
    static COMMANDS: LazyLock<Commands> = LazyLock::new(|| commands::with(MODULES));
    &COMMANDS
}
