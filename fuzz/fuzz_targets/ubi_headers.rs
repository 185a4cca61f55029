//! Headers: decoding, salvaging and classifying agree, and what decodes encodes to bytes that decode alike.
#![no_main]

use eraseblock_base::Location;
use eraseblock_ubi_format::decode::{decode_ec, decode_vid, salvage_ec, salvage_vid};
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::{ReadQuality, classify_ec, classify_vid};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (layout, at) = (eraseblock_fuzz::layout(), Location::Whole);
    if let Ok(header) = decode_ec(data, at) {
        assert_eq!(decode_ec(&encode_ec(&header), at), Ok(header));
    }
    if let Ok(header) = decode_vid(data, &layout, at) {
        assert_eq!(decode_vid(&encode_vid(&header), &layout, at), Ok(header));
    }
    let _ = (salvage_ec(data), salvage_vid(data, &layout));
    let _ = classify_ec(data, ReadQuality::Clean, &layout, at);
    let _ = classify_vid(data, ReadQuality::Clean, &layout, at);
});
