//! Results, written down: one file for each format, all of them pure functions over [`crate::results::Results`].

pub mod autocannon;
pub mod html;
pub mod json;
pub mod markdown;
pub mod matrix;
pub mod ratios;
pub mod wrk;

pub mod numbers;
#[cfg(test)]
mod samples;
mod summary;
pub mod table;
