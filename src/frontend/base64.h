// Base64 (RFC 4648, standard alphabet), strict. Free functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lambent::frontend {

std::string base64_encode(std::string_view bytes);
// Nothing for characters outside the alphabet, wrong padding or leftover bits.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace lambent::frontend
