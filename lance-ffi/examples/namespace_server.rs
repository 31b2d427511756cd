//! Serves the tables of a directory as a Lance REST namespace on loopback, for tests; runs until it is killed.
//!
//! `namespace_server DIRECTORY [PORT]`: PORT 0, the default, takes a free one. Prints `listening 127.0.0.1:PORT`.

use std::error::Error;

use lance_namespace_impls::{ConnectBuilder, RestAdapter, RestAdapterConfig};

const HOST: &str = "127.0.0.1";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: namespace_server DIRECTORY [PORT]")?;
    let port: u16 = match arguments.next() {
        Some(port) => port
            .parse()
            .map_err(|e| format!("port {port:?} is not a port number: {e}"))?,
        None => 0,
    };
    let tables = ConnectBuilder::new("dir").property("root", directory).connect().await?;
    let server = RestAdapter::new(
        tables,
        RestAdapterConfig {
            host: HOST.to_string(),
            port,
        },
    )
    .start()
    .await?;
    println!("listening {HOST}:{}", server.port());
    std::future::pending::<()>().await;
    Ok(())
}
