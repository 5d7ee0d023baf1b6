//! Keys and values of the tables as JSON, without loss.
//!
//! redb's encoding of a value is not meant to be read by other programs, so that the log in etcd holds JSON. Numbers
//! and texts are themselves, tuples are arrays, and digests are hex.

use redb::Value;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

/// A key or value of a table that has a JSON form.
pub trait Field: Value {
    /// Converts the value to JSON.
    fn to_json<'a>(value: &Self::SelfType<'a>) -> Json
    where
        Self: 'a;

    /// Converts JSON to the store's own encoding; `None` where the JSON has another type.
    fn stored(json: Json) -> Option<Vec<u8>>;
}

fn read<T: DeserializeOwned>(json: Json) -> Option<T> {
    serde_json::from_value(json).ok()
}

fn bytes<const N: usize>(hex: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(hex, &mut bytes).ok()?;
    Some(bytes)
}

/// Implements [`Field`] for a type that serde converts by itself: `plain!(type, owned type, |owned| borrowed)`. The
/// owned type is what is read from JSON, as `String` for `&str`; the closure borrows the table's type from it.
macro_rules! plain {
    ($type:ty, $owned:ty, |$given:ident| $borrowed:expr) => {
        impl Field for $type {
            fn to_json<'a>(value: &Self::SelfType<'a>) -> Json
            where
                Self: 'a,
            {
                json!(value)
            }

            fn stored(json: Json) -> Option<Vec<u8>> {
                let $given: $owned = read(json)?;
                Some(AsRef::<[u8]>::as_ref(&<$type>::as_bytes(&$borrowed)).to_vec())
            }
        }
    };
}

plain!(u64, u64, |number| number);
plain!((u64, u64), (u64, u64), |pair| pair);
plain!(&str, String, |text| text.as_str());
plain!((&str, u32), (String, u32), |key| (key.0.as_str(), key.1));
plain!((&str, u64), (String, u64), |key| (key.0.as_str(), key.1));
plain!((&str, u64, u64), (String, u64, u64), |key| (key.0.as_str(), key.1, key.2));

/// A binding's commitment, as hex.
impl Field for [u8; 33] {
    fn to_json<'a>(value: &Self::SelfType<'a>) -> Json
    where
        Self: 'a,
    {
        json!(hex::encode(value))
    }

    fn stored(json: Json) -> Option<Vec<u8>> {
        Some(bytes::<33>(json.as_str()?)?.to_vec())
    }
}

impl Field for (u64, [u8; 32]) {
    fn to_json<'a>(value: &Self::SelfType<'a>) -> Json
    where
        Self: 'a,
    {
        json!((value.0, hex::encode(value.1)))
    }

    fn stored(json: Json) -> Option<Vec<u8>> {
        let (number, digest): (u64, String) = read(json)?;
        Some(Self::as_bytes(&(number, bytes(&digest)?)).to_vec())
    }
}

impl Field for (u64, u64, [u8; 32]) {
    fn to_json<'a>(value: &Self::SelfType<'a>) -> Json
    where
        Self: 'a,
    {
        json!((value.0, value.1, hex::encode(value.2)))
    }

    fn stored(json: Json) -> Option<Vec<u8>> {
        let (one, other, digest): (u64, u64, String) = read(json)?;
        Some(Self::as_bytes(&(one, other, bytes(&digest)?)).to_vec())
    }
}

/// A text where the bytes are text, as records are; else a digest and the text after it, as entries of a chain are.
impl Field for &[u8] {
    fn to_json<'a>(value: &Self::SelfType<'a>) -> Json
    where
        Self: 'a,
    {
        if let Ok(text) = std::str::from_utf8(value) {
            return json!(text);
        }
        let (digest, text) = value.split_at(value.len().min(32));
        match std::str::from_utf8(text) {
            Ok(text) => json!((hex::encode(digest), text)),
            Err(_) => json!((hex::encode(value), "")),
        }
    }

    fn stored(json: Json) -> Option<Vec<u8>> {
        if let Json::String(text) = json {
            return Some(text.into_bytes());
        }
        let (digest, text): (String, String) = read(json)?;
        let mut stored = hex::decode(digest).ok()?;
        stored.extend(text.into_bytes());
        Some(stored)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn back<F: Field + 'static>(value: &F::SelfType<'_>) -> bool {
        F::stored(F::to_json(value)).is_some_and(|stored| stored == F::as_bytes(value).as_ref())
    }

    proptest! {
        #[test]
        fn every_field_comes_back_as_it_was(
            text in "\\PC{0,20}", a: u64, b: u64, digest: [u8; 32], binding: [u8; 32], kind: u8, tail: Vec<u8>,
        ) {
            let mut commitment = [kind; 33];
            commitment[1..].copy_from_slice(&binding);
            prop_assert!(back::<u64>(&a) && back::<(u64, u64)>(&(a, b)) && back::<&str>(&text.as_str()));
            prop_assert!(back::<(&str, u32)>(&(text.as_str(), b as u32)));
            prop_assert!(back::<(&str, u64)>(&(text.as_str(), b)) && back::<(&str, u64, u64)>(&(text.as_str(), a, b)));
            prop_assert!(back::<[u8; 33]>(&commitment) && back::<(u64, [u8; 32])>(&(a, digest)));
            prop_assert!(back::<(u64, u64, [u8; 32])>(&(a, b, digest)));
            let entry = [&digest[..], text.as_bytes()].concat();
            prop_assert!(back::<&[u8]>(&entry.as_slice()) && back::<&[u8]>(&tail.as_slice()));
        }
    }

    #[test]
    fn what_is_none_of_the_type_is_refused() {
        assert!(<[u8; 33] as Field>::stored(json!("00")).is_none());
        assert!(<(&str, u64) as Field>::stored(json!(["j"])).is_none());
        assert!(<u64 as Field>::stored(json!(-1)).is_none());
    }
}
