//! One volume for each rule.
