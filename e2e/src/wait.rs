//! Tries that are repeated until they succeed.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

const PAUSE: Duration = Duration::from_millis(100);

/// Tries until it succeeds.
///
/// # Errors
/// After `patience`, with the last failure.
pub async fn within<T>(
    patience: Duration,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let deadline = Instant::now() + patience;
    loop {
        match attempt().await {
            Ok(result) => return Ok(result),
            Err(error) if Instant::now() > deadline => {
                return Err(error.context(format!("waited {patience:?} for {what}")));
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
