use crate::error::call;
use crate::{sys, Error, RowId};

/// Returns the 64-bit keys of texts for a [`KeyedTable`](crate::KeyedTable): key i is the hash of `prefix` and `texts[i]`, one
/// behind the other.
///
/// The keys are the same on every system, in every version and in every language (`stable_hash` of C++, `gradstep.hash_texts`
/// of Python). `docs/reference/c_api.md` has the formula.
///
/// ```
/// # fn main() -> Result<(), gradstep::Error> {
/// let keys = gradstep::hash_texts("site=", &["news", "mail"])?; // of "site=news" and "site=mail"
/// assert_eq!(keys[0], gradstep::hash_texts("", &["site=news"])?[0]);
/// # Ok(())
/// # }
/// ```
pub fn hash_texts<Text: AsRef<[u8]>>(prefix: &str, texts: &[Text]) -> Result<Vec<u64>, Error> {
    let (mut all, mut begins, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts {
        begins.push(all.len() as u64);
        all.extend_from_slice(text.as_ref());
        ends.push(all.len() as u64);
    }
    let mut keys = vec![0; texts.len()];
    // The library reads as many bytes and writes as many keys as there are.
    call(|said| unsafe {
        sys::gradstep_hash_texts(
            prefix.as_ptr().cast(),
            prefix.len() as u64,
            all.as_ptr().cast(),
            all.len() as u64,
            begins.as_ptr(),
            ends.as_ptr(),
            texts.len() as u64,
            keys.as_mut_ptr(),
            said,
        )
    })?;
    Ok(keys)
}

/// Returns the keys of integers, whose texts are decimal: 17 with the prefix "ad=" has the key of "ad=17". See [`hash_texts`].
pub fn hash_integers<I: RowId>(prefix: &str, integers: &[I]) -> Result<Vec<u64>, Error> {
    let mut keys = vec![0; integers.len()];
    // The same.
    call(|said| unsafe {
        sys::gradstep_hash_integers(
            prefix.as_ptr().cast(),
            prefix.len() as u64,
            integers.as_ptr().cast(),
            I::DTYPE,
            integers.len() as u64,
            keys.as_mut_ptr(),
            said,
        )
    })?;
    Ok(keys)
}
