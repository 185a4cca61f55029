//! A client of the server, for the tests of this crate and of the command.

use nfs3_client::nfs3_types::nfs3::*;
use nfs3_client::tokio::{TokioConnector, TokioIo};
use nfs3_client::{Nfs3Connection, Nfs3ConnectionBuilder};
use tokio::net::TcpStream;

pub(crate) type Client = Nfs3Connection<TokioIo<TcpStream>>;

/// Runs `visit` with a client of the server at `port`.
pub(crate) fn visited(port: u16, visit: impl AsyncFnOnce(Client)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let builder = Nfs3ConnectionBuilder::new(TokioConnector, "127.0.0.1", "/");
        let builder = builder.connect_from_privileged_port(false);
        visit(builder.mount_port(port).nfs3_port(port).mount().await.unwrap()).await;
    });
}

pub(crate) fn in_dir(dir: &nfs_fh3, name: &str) -> diropargs3<'static> {
    diropargs3 { dir: dir.clone(), name: name.as_bytes().to_vec().into() }
}

/// Lists names after a cookie, with their cookies, in small replies.
pub(crate) async fn names(
    client: &mut Client,
    dir: &nfs_fh3,
    mut cookie: u64,
) -> Vec<(String, u64)> {
    let (mut cookieverf, mut all) = (cookieverf3::default(), Vec::new());
    loop {
        let (dircount, maxcount) = (600, 900);
        let args = READDIRPLUS3args { dir: dir.clone(), cookie, cookieverf, dircount, maxcount };
        let READDIRPLUS3res::Ok(ok) = client.readdirplus(&args).await.unwrap() else {
            panic!("no listing after {cookie}")
        };
        cookieverf = ok.cookieverf;
        for entry in ok.reply.entries.into_inner() {
            cookie = entry.cookie;
            all.push((String::from_utf8_lossy(entry.name.0.as_ref()).into_owned(), cookie));
        }
        if ok.reply.eof {
            return all;
        }
    }
}
