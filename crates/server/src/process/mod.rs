//! The process itself: its resources, its clock cycles, and the request to stop.

pub(crate) mod cycles;
pub(crate) mod stop_request;
pub(crate) mod system;
