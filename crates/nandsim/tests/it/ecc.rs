//! Software ECC and verification on raw simulated chips.

use super::{P0, P1, large, mini, pattern};
use eraseblock_base::Location;
use eraseblock_mtd::ecc::{EccMtd, EccScheme};
use eraseblock_mtd::verify::VerifyMtd;
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::{Chip, ChipConfig, Fault, FaultPlan, Rules, Variant};
use std::sync::Arc;

fn protected(config: ChipConfig, scheme: EccScheme) -> (Arc<Chip>, EccMtd) {
    let chip = Arc::new(Chip::new(config.with_raw_reads()));
    let ecc = EccMtd::new(chip.clone(), scheme).unwrap();
    (chip, ecc)
}

const BCH8: EccScheme = EccScheme::Bch { step: 512, strength: 8 };
const BCH4: EccScheme = EccScheme::Bch { step: 512, strength: 4 };

#[test]
fn ecc_lies_where_linux_puts_it() {
    let (chip, ecc) = protected(large(), BCH8);
    ecc.program(0, &[0; 512]).unwrap();
    let mut oob = [0; 64];
    chip.read_oob(0, 0, &mut oob).unwrap();
    assert_eq!(oob[..12], [0xFF; 12]);
    assert_eq!(oob[12..16], [0xEF, 0x51, 0x2E, 0x09]);
    assert_eq!(oob[25..], [0xFF; 39], "other steps are left alone");
    let (chip, ecc) = protected(mini(), EccScheme::Hamming);
    let mut data = vec![0; 512];
    data[256] = 1;
    ecc.program(0, &data).unwrap();
    let mut oob = [0; 16];
    chip.read_oob(0, 0, &mut oob).unwrap();
    assert_eq!(oob[..8], [0xFF, 0xFF, 0xFF, 0xAA, 0xFF, 0xFF, 0xAA, 0xAB]);
}

#[test]
fn flips_are_corrected_up_to_the_strength() {
    for (scheme, strength) in [(EccScheme::Hamming, 1), (BCH4, 4), (BCH8, 8)] {
        let (chip, ecc) = protected(large(), scheme);
        let data = pattern(4096, 1);
        ecc.program(0, &data).unwrap();
        let mut back = vec![0; 4096];
        assert_eq!(ecc.read(0, &mut back).unwrap(), Default::default());
        assert_eq!(back, data);
        let flips: Vec<u32> = (0..strength).map(|index| 40 + index * 111).collect();
        chip.flip_bits(P0, 2048, &flips).unwrap();
        let outcome = ecc.read(0, &mut back).unwrap();
        assert_eq!((u32::from(outcome.corrected_bits), outcome.uncorrectable), (strength, false));
        assert_eq!(back, data);
        let mut part = vec![0; 100];
        ecc.read(2100, &mut part).unwrap();
        assert_eq!(part, data[2100..2200]);
        chip.flip_bits(P0, 2048, &[1500]).unwrap();
        assert!(ecc.read(2048, &mut back[..512]).unwrap().uncorrectable);
    }
}

#[test]
fn erased_pages_with_few_flips_read_erased() {
    let (chip, ecc) = protected(large(), BCH4);
    let mut back = vec![0; 2048];
    assert_eq!(ecc.read(0, &mut back).unwrap(), Default::default());
    chip.flip_bits(P0, 0, &[1, 2, 3, 5000]).unwrap();
    assert_eq!(ecc.read(0, &mut back).unwrap().corrected_bits, 3);
    assert_eq!(back, [0xFF; 2048]);
    chip.flip_bits(P0, 0, &[4, 6]).unwrap();
    assert!(ecc.read(0, &mut back).unwrap().uncorrectable);
}

#[test]
fn torn_programs_are_uncorrectable_through_software_ecc() {
    for variant in [Variant::P3, Variant::P4, Variant::P7Data, Variant::P7Oob] {
        let (chip, ecc) = protected(large(), BCH4);
        chip.set_plan(FaultPlan::new(3).with(0, Fault::Cut(variant)));
        assert!(ecc.program(0, &pattern(2048, 1)).is_err());
        chip.power_on();
        let mut back = vec![0; 2048];
        assert!(ecc.read(0, &mut back).unwrap().uncorrectable, "{variant}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let chip: Arc<dyn Mtd> = Arc::new(Chip::new(mini()));
    assert!(EccMtd::new(chip.clone(), BCH4).is_err());
    assert!(EccMtd::new(chip.clone(), EccScheme::Bch { step: 1024, strength: 4 }).is_err());
    let ecc = EccMtd::new(chip, EccScheme::Hamming).unwrap();
    assert!(ecc.program(0, &[0; 100]).is_err());
    assert!(ecc.read(u64::MAX, &mut [0; 2]).is_err());
}

#[test]
fn verification_finds_lost_and_wrong_programs() {
    let chip = Arc::new(Chip::new(large()));
    let plan = FaultPlan::new(1)
        .with(1, Fault::Lost)
        .with(2, Fault::Silent { bits: 1 })
        .with(3, Fault::Flips { bits: 2 });
    chip.set_plan(plan);
    let device = VerifyMtd::new(chip);
    device.program(0, &pattern(512, 1)).unwrap();
    assert!(device.program(512, &pattern(512, 1)).is_err());
    assert!(device.program(1024, &pattern(512, 1)).is_err());
    device.program(1536, &pattern(512, 1)).unwrap();
}

#[test]
fn verification_compares_out_of_band_bytes() {
    let chip = Arc::new(Chip::new(large().with_raw_reads()));
    let plan = FaultPlan::new(1)
        .with(1, Fault::Lost)
        .with(3, Fault::Silent { bits: 1 })
        .with(4, Fault::Flips { bits: 1 });
    chip.set_plan(plan);
    let device = VerifyMtd::new(chip.clone());
    let failed = |result| match result {
        Err(MtdError::Failed { at, operation: "verifying a program" }) => Some(at),
        other => panic!("{other:?}"),
    };
    let (page, mut oob) = (pattern(2048, 1), pattern(64, 2));
    oob[..2].fill(0xFF); // the place of the bad-block mark
    device.program_with_oob(0, &page, &oob).unwrap();
    assert_eq!(failed(device.program_with_oob(2048, &page, &oob)), Some(Location::Byte(2048)));
    device.program_oob(2 * 2048, 8, &[1, 2, 0xFF, 4]).unwrap();
    failed(device.program_oob(3 * 2048, 0, &[0; 8]));
    failed(device.program_oob(4 * 2048, 0, &[0; 8]));
    // With ECC, the ECC bytes are not the caller's.
    let ecc: Arc<dyn Mtd> = Arc::new(EccMtd::new(chip.clone(), BCH4).unwrap());
    let device = VerifyMtd::new(ecc);
    chip.erase(P1).unwrap();
    let at = 32_768;
    device.program_with_oob(at, &page, &[0xFF, 0xFF, 7, 8]).unwrap();
    // Bytes that are not written may have any value; written bytes must read back.
    device.program_oob(at, 4, &[5]).unwrap();
    device.program_oob(at, 2, &[0xFF, 0xFF, 0xFF, 6]).unwrap();
    let lawless = Arc::new(Chip::new(large().with_rules(Rules::OFF)));
    lawless.corrupt_bits(P0, 2048, &[2048 * 8 + 8 * 3]).unwrap();
    let device = VerifyMtd::new(lawless);
    let wrong = device.program_with_oob(2048, &page, &[0xFF, 0xFF, 0xFF, 0x55]);
    assert_eq!(failed(wrong), Some(Location::Byte(2048)), "the data was right");
}
