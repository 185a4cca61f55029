//! rtime, JFFS2's own run-length codec: each literal is followed by the length of a run that
//! repeats the bytes after the literal's last occurrence (spec: jffs2 9.4).

use crate::CodecError;

/// The longest run that one byte can encode.
const MAX_RUN: usize = 255;

/// Replaces the content of `out` with the encoded form of `source`. Random data grows to twice its
/// length, so the caller compares the lengths.
pub fn compress(source: &[u8], out: &mut Vec<u8>) {
    let mut last = [0_usize; 256];
    out.clear();
    let mut position = 0;
    while let Some(&value) = source.get(position) {
        out.push(value);
        position += 1;
        let back = std::mem::replace(&mut last[usize::from(value)], position);
        let ahead = &source[position..];
        let run = if back < position {
            ahead.iter().zip(&source[back..]).take(MAX_RUN).take_while(|(a, b)| a == b).count()
        } else {
            0
        };
        out.push(u8::try_from(run).unwrap_or(u8::MAX));
        position += run;
    }
}

/// Decodes `input` into `out`, which it must fill exactly.
///
/// # Errors
///
/// Fails if the input ends early, produces too much or continues after the end.
pub fn decompress(input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let broken = |problem| CodecError::Stream { codec: "rtime", problem };
    let mut last = [0_usize; 256];
    let mut pairs = input.chunks_exact(2);
    let mut done = 0;
    while done < out.len() {
        let Some(&[value, run]) = pairs.next() else {
            return Err(CodecError::OutputShort { produced: done, expected: out.len() });
        };
        out[done] = value;
        done += 1;
        let back = std::mem::replace(&mut last[usize::from(value)], done);
        let run = usize::from(run);
        if run > out.len() - done {
            return Err(broken("a run leaves the output"));
        }
        if run > 0 && back >= done {
            return Err(broken("a run starts beyond the data so far"));
        }
        // Byte by byte, because a run may repeat itself.
        for step in 0..run {
            out[done + step] = out[back + step];
        }
        done += run;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors_of_the_specification() {
        let rows: [(&[u8], &[u8]); 5] = [
            (b"abababababababab", &[0x61, 0, 0x62, 0x0E]),
            (b"abababababababababab", &[0x61, 0, 0x62, 0x12]),
            (b"aaaaaaaaaabcabcabc", &[0x61, 9, 0x62, 0, 0x63, 1, 0x62, 4]),
            (b"abcabcabcabc", &[0x61, 0, 0x62, 0, 0x63, 9]),
            (&[0; 300], &[0, 0xFF, 0, 0x2B]),
        ];
        for (source, encoded) in rows {
            let mut out = Vec::new();
            compress(source, &mut out);
            assert_eq!(out, encoded);
            let mut back = vec![0; source.len()];
            decompress(encoded, &mut back).unwrap();
            assert_eq!(back, source);
        }
    }

    #[test]
    fn broken_streams_are_refused() {
        let refused = |input: &[u8], len| decompress(input, &mut vec![0; len]).is_err();
        assert!(refused(&[], 1));
        assert!(refused(&[0x61], 1));
        assert!(refused(&[0x61, 5], 5));
        assert!(refused(&[0x61, 0], 2));
        assert!(!refused(&[0x61, 4], 5));
    }

    proptest! {
        #[test]
        fn everything_survives(source in proptest::collection::vec(0_u8..4, 0..2000)) {
            let mut out = Vec::new();
            compress(&source, &mut out);
            let mut back = vec![0; source.len()];
            decompress(&out, &mut back).unwrap();
            prop_assert_eq!(back, source);
        }

        #[test]
        fn random_bytes_are_answered(input in proptest::collection::vec(any::<u8>(), 0..200), len in 0_usize..3000) {
            let _ = decompress(&input, &mut vec![0; len]);
        }
    }
}
