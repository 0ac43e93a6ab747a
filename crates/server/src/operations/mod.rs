//! The operators' side: the admin API, backups, restores, the change feed and the pages of the HTTP
//! listener.

pub(crate) mod admin;
pub(crate) mod backup_tasks;
pub(crate) mod backups;
pub(crate) mod changes;
pub(crate) mod local_backup;
pub(crate) mod pages;
pub(crate) mod restoring;
