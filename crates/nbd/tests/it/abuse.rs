//! Clients that break the protocol lose their connection, and nothing else happens.

use crate::client::{GREETING, Memory, go, option, replies, request, talk};
use proptest::prelude::*;
use std::io::ErrorKind;

#[test]
fn requests_are_carried_out_in_order() {
    let disk = Memory::new(1 << 20);
    let mut sent = go();
    sent.extend(request(1, 1, 10, 512, 1024));
    sent.extend([0x5A; 1024]);
    sent.extend(request(3, 0, 11, 0, 0));
    sent.extend(request(4, 0, 12, 4096, 8192));
    sent.extend(request(0, 0, 13, 0, 1024));
    sent.extend(request(2, 0, 14, 0, 0));
    let (outcome, output) = talk(&disk, &sent);
    outcome.unwrap();
    let done = disk.done.into_inner().unwrap();
    assert_eq!(done, ["write 512 1024 true", "flush", "trim 4096 8192", "read 0 1024"]);
    let data = output.len() - 1024;
    assert_eq!(replies(&output[..data]), [(0, 10), (0, 11), (0, 12), (0, 13)]);
    assert_eq!(output[data..], [[0; 512], [0x5A; 512]].concat());
}

#[test]
fn impossible_requests_get_their_error_and_the_connection_goes_on() {
    let disk = Memory::new(64 << 10);
    let large = 1 << 31;
    for (bytes, error) in [
        (request(0, 0, 1, 1, 512), 22),
        (request(0, 0, 1, 0, 0), 22),
        (request(0, 0, 1, 0, 100), 22),
        (request(0, 0, 1, 64 << 10, 512), 22),
        (request(0, 0, 1, u64::MAX - 511, 512), 22),
        (request(0, 0, 1, 0, large), 22),
        (request(0, 0, 1, 7 * 512, 512), 5),
        (request(0, 2, 1, 0, 512), 22),
        (request(9, 0, 1, 0, 512), 22),
        (request(3, 0, 1, 512, 0), 22),
        (request(4, 0, 1, 0, large), 22),
        ([request(1, 0, 1, 64 << 10, 512), vec![1; 512]].concat(), 28),
    ] {
        let (outcome, output) = talk(&disk, &[go(), bytes, request(0, 0, 2, 0, 512)].concat());
        outcome.unwrap();
        let data = output.len() - 512;
        assert_eq!(replies(&output[..data]), [(error, 1), (0, 2)]);
    }
    assert!(disk.bytes.lock().unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn broken_clients_lose_their_connection() {
    let disk = Memory::new(64 << 10);
    let flags = 3_u32.to_be_bytes();
    let oversized = [&flags[..], b"IHAVEOPT", &[0, 0, 0, 7, 255, 255, 255, 255]].concat();
    let endless = [flags.to_vec(), option(8, &[]).repeat(2000)].concat();
    for bytes in [
        8_u32.to_be_bytes().to_vec(),
        [&flags[..], b"WHATEVER", &[0; 8]].concat(),
        oversized,
        endless,
        [go(), vec![0; 28]].concat(),
        [go(), request(1, 0, 1, 0, u32::MAX)].concat(),
    ] {
        let error = talk(&disk, &bytes).0.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    }
}

/// Every prefix of a session ends it without a panic, and writes only whole requests.
#[test]
fn sessions_may_end_anywhere() {
    let mut session = go();
    session.extend(request(1, 0, 1, 512, 512));
    session.extend([0x5A; 512]);
    for length in 0..session.len() {
        let disk = Memory::new(64 << 10);
        let outcome = talk(&disk, &session[..length]).0;
        assert!(outcome.is_ok() || outcome.is_err_and(|e| e.kind() == ErrorKind::UnexpectedEof));
        assert!(disk.bytes.lock().unwrap().iter().all(|byte| *byte == 0), "{length}");
    }
}

#[test]
fn options_are_answered() {
    let disk = Memory::new(64 << 10);
    let malformed = option(6, &[0, 0, 0, 9, 0, 0]);
    let sent = [
        3_u32.to_be_bytes().to_vec(),
        option(8, &[]),
        option(3, &[]),
        option(3, &[1]),
        malformed,
        option(2, &[]),
    ]
    .concat();
    let (outcome, output) = talk(&disk, &sent);
    outcome.unwrap();
    let kinds: Vec<u32> = answers(&output[18..]);
    assert_eq!(kinds, [0x8000_0001, 2, 1, 0x8000_0003, 0x8000_0003, 1]);

    // The old way in: size and flags, and 124 zeros unless the client does without.
    for (flags, length) in [(1_u32, 18 + 10 + 124), (3, 18 + 10)] {
        let sent = [&flags.to_be_bytes()[..], &option(1, b"any")].concat();
        let (outcome, output) = talk(&disk, &sent);
        outcome.unwrap();
        assert_eq!(output.len(), length);
        assert_eq!(output[18..26], (64_u64 << 10).to_be_bytes());
    }
    assert_eq!(talk(&disk, &go()).1.len(), GREETING);
}

fn answers(mut output: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while !output.is_empty() {
        kinds.push(u32::from_be_bytes(output[12..16].try_into().unwrap()));
        let length = u32::from_be_bytes(output[16..20].try_into().unwrap());
        output = &output[20 + length as usize..];
    }
    kinds
}

proptest! {
    /// Any bytes, and a session with any damage, end without a panic and in bounded time.
    #[test]
    fn any_bytes_end_a_session(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let disk = Memory::new(64 << 10);
        let _ = talk(&disk, &bytes);
        let _ = talk(&disk, &[&3_u32.to_be_bytes()[..], b"IHAVEOPT", &bytes].concat());
        let _ = talk(&disk, &[&go()[..], &bytes].concat());
    }

    #[test]
    fn a_damaged_session_does_nothing_outside_the_disk(place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let disk = Memory::new(64 << 10);
        let mut session = [go(), request(1, 0, 1, 63 << 10, 1024), vec![0x5A; 1024]].concat();
        session.extend(request(0, 0, 2, 0, 1024));
        session.extend(request(4, 1, 3, 4096, 8192));
        session.extend(request(3, 0, 4, 0, 0));
        let place = place.index(session.len());
        session[place] = byte;
        let (_, output) = talk(&disk, &session);
        prop_assert!(output.len() < 64 << 10);
    }
}
