// Base64 (RFC 4648, standard alphabet, padded), strict, as the Lambda API carries code and log
// tails. Pure functions; any room, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lambent {

std::string base64_encode(std::string_view bytes);
// Nothing for characters outside the alphabet, wrong padding or leftover bits.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace lambent
