// Digests, message authentication and sealed bytes by OpenSSL's libcrypto, and the kernel's random
// bytes. Pure functions but for random_bytes(); any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace lambent::crypto {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view bytes);

// The bytes of a digest, and their lower-case hexadecimal digits.
std::string_view bytes_of(const Digest& digest);
std::string to_hex(std::string_view bytes);
std::string to_hex(const Digest& digest);

// Takes as long whatever differs; only the sizes may be learnt from its time.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// Of the kernel (getrandom); waits for its pool at boot.
std::string random_bytes(size_t count);

// AES-256-GCM with a random nonce, which is put before the ciphertext. `key` has kKeySize bytes.
// `context` is authenticated, not kept: what was sealed in one context does not open in another.
constexpr size_t kKeySize = 32;
std::string seal(std::string_view key, std::string_view text, std::string_view context);
// DATA_LOSS if it was not sealed with this key and context, or was changed since.
Result<std::string> open(std::string_view key, std::string_view sealed, std::string_view context);

}  // namespace lambent::crypto
