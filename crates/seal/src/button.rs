//! Tokens of the buttons of a call: who presses one sends it back, and only the device that made it can tell which it is.

use cede_wire::approver::Button;
use cede_wire::canonical::encode;
use zeroize::Zeroizing;

use crate::device::LocalDevice;

impl LocalDevice {
    /// The token of a button, as text for a message. Whoever has it can press that button and no other.
    ///
    /// Shape: 64 hexadecimal digits. Source: SPEC L-16.
    pub fn token(&self, button: &Button) -> String {
        self.mac(button).to_hex().to_string()
    }

    /// Whether a text is the token of this button. The comparison says nothing by the time that it takes.
    pub fn is_token(&self, button: &Button, text: &str) -> bool {
        blake3::Hash::from_hex(text).is_ok_and(|said| said == self.mac(button))
    }

    fn mac(&self, button: &Button) -> blake3::Hash {
        let key = Zeroizing::new(blake3::derive_key(Button::DOMAIN, self.secret().as_slice()));
        blake3::keyed_hash(&key, &encode(button))
    }
}

#[cfg(test)]
mod tests {
    use cede_wire::id::{ApprovalId, DeviceId, Hash, ShowingId};

    use super::*;

    fn button() -> Button {
        Button {
            at: DeviceId::new([1; 32]),
            question: ApprovalId::new([2; 8]),
            shown: Hash::of(b"shown"),
            showing: ShowingId::new([3; 16]),
            expires_unix_ms: 1_790_000_000_000,
            yes: true,
        }
    }

    /// Shows: L-16
    #[test]
    fn token_is_of_one_button_of_one_device() {
        let device = LocalDevice::from_secret(&[7; 32]);
        let token = device.token(&button());
        assert!(device.is_token(&button(), &token) && token.len() == 64);
        assert!(!LocalDevice::from_secret(&[8; 32]).is_token(&button(), &token));
        let others = [
            Button { at: DeviceId::new([9; 32]), ..button() },
            Button { question: ApprovalId::new([9; 8]), ..button() },
            Button { shown: Hash::of(b"swapped"), ..button() },
            Button { showing: ShowingId::new([9; 16]), ..button() },
            Button { expires_unix_ms: 1_790_000_000_001, ..button() },
            Button { yes: false, ..button() },
        ];
        for other in others {
            assert!(!device.is_token(&other, &token), "{other:?}");
        }
    }

    /// Shows: L-16
    #[test]
    fn altered_token_is_none() {
        let device = LocalDevice::from_secret(&[7; 32]);
        let token = device.token(&button());
        for at in 0..token.len() {
            let mut digits: Vec<u8> = token.bytes().collect();
            digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
            assert!(!device.is_token(&button(), &String::from_utf8(digits).unwrap()), "digit {at}");
        }
        for said in ["", &token[1..], &format!("{token}0"), &format!(" {token}"), "é"] {
            assert!(!device.is_token(&button(), said), "{said:?}");
        }
    }
}
