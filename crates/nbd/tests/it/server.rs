//! Connections of a socket.

use crate::client::{GREETING, Memory, go, request};
use eraseblock_nbd::Server;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

#[test]
fn clients_come_and_go_until_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let disk = Memory::new(64 << 10);
    let server = Server::bind(&path).unwrap();
    assert_eq!(Server::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    let stopper = server.stopper();
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&disk, &|_| {}));
        let connect = || {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(&go()).unwrap();
            stream.read_exact(&mut [0; GREETING]).unwrap();
            stream
        };
        let (mut first, mut second) = (connect(), connect());
        let ask = |stream: &mut UnixStream| {
            stream.write_all(&request(0, 0, 1, 0, 512)).unwrap();
            stream.read_exact(&mut [0; 16 + 512])
        };
        ask(&mut second).unwrap();
        ask(&mut first).unwrap();
        // One breaks the protocol; the other goes on.
        second.write_all(&[0; 28]).unwrap();
        assert_eq!(second.read(&mut [0; 1]).unwrap(), 0);
        ask(&mut first).unwrap();
        stopper.stop();
        running.join().unwrap().unwrap();
        assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
    });
    drop(server);
    assert!(!path.exists());
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_and_a_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Server::bind(&path).unwrap());
    std::fs::write(&path, "text").unwrap();
    assert!(Server::bind(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"text");
}
