//! A connection's bytes, whatever carries them.

use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}
