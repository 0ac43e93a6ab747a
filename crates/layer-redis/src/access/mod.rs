//! Access: users and their rules, the guard of logins, admission control.

pub mod acl;
pub mod admission_control;
pub(crate) mod database_login;
pub mod login_guard;
