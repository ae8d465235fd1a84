//! Asks the supervisor on this machine.

use std::{io, net::Ipv4Addr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::supervisor::Account;

/// It answers within milliseconds, or is about to start or to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the supervisor says of itself; nothing while it doesn't answer.
pub(crate) async fn account(port: u16) -> Option<Account> {
    let answer = tokio::time::timeout(PATIENCE, get(port, "/status")).await.ok()?.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

/// HTTP/1.0 needs no more than this: the answer ends with the connection.
async fn get(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
