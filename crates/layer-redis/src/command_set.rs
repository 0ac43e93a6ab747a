//! The commands of a server: the table, their handlers, and the modules that bring some of them.

use std::sync::OnceLock;

use crate::command::Command;
use crate::command::arguments::{self, Argument, ArgumentTable};
use crate::command::table::Table;
use crate::handler::definition::{Definition, Handler};
use crate::handler::groups::Groups;
use crate::layer::Redis;
use crate::module::{Module, Modules};

/// The module of Redis that has the layer's own commands of JSON.
const JSON_MODULE: (&str, i64) = ("ReJSON", 20_800);

/// All commands of a server: the layer's own, and those of modules.
pub struct Commands {
    pub table: Table,
    handlers: Vec<Handler>,
    pub modules: Modules,
    /// Read at the first COMMAND DOCS.
    arguments: OnceLock<ArgumentTable>,
}

impl Commands {
    /// Gathers families of the layer, those of `modules`, and further ones of the layer. Panics if
    /// a name is repeated.
    pub fn gather(
        first: &'static [&'static [Definition]],
        modules: &'static [&'static dyn Module],
        last: &'static [&'static [Definition]],
    ) -> Commands {
        let modules = Modules::new(modules);
        let module_commands = modules.all().iter().flat_map(|module| module.commands());
        let families = first.iter().chain(module_commands).chain(last);
        let top = families.flat_map(|family| family.iter());
        // Every command is followed by its subcommands if it is a container.
        let definitions = top.flat_map(|definition| std::iter::once(definition).chain(definition.subcommands));
        let definitions: Vec<&Definition> = definitions.collect();
        Commands {
            table: Table::new(definitions.iter().map(|definition| &definition.command).collect()),
            handlers: definitions.iter().map(|definition| definition.handler).collect(),
            modules,
            arguments: OnceLock::new(),
        }
    }

    /// The arguments of a command for COMMAND DOCS; none if it takes none.
    pub fn arguments_of(&self, command: &Command) -> &[Argument] {
        let module_arguments = self.modules.all().iter().map(|module| module.arguments());
        let read = || ArgumentTable::read(std::iter::once(arguments::OWN).chain(module_arguments));
        self.arguments.get_or_init(read).of(command.name)
    }

    /// The handler of the command with this number in the table.
    #[inline]
    pub fn handler(&self, index: usize) -> Handler {
        self.handlers[index]
    }

    /// The modules of Redis whose commands are here, with the versions that are followed.
    pub fn module_names(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let names = self.modules.all().iter().flat_map(|module| module.names());
        std::iter::once(JSON_MODULE).chain(names.copied())
    }
}

impl Redis {
    /// The commands of this layer.
    #[inline]
    pub fn commands(&self) -> &'static Commands {
        let commands = self.command_set.downcast_ref();
        commands.expect("the layer was made with commands")
    }
}

impl Groups<'_> {
    pub fn commands(self) -> &'static Commands {
        self.layer.commands()
    }

    pub fn modules(self) -> &'static Modules {
        &self.layer.commands().modules
    }
}
