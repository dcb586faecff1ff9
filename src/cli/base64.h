// Base64 (RFC 4648, with padding), as the Lambda API carries code and log tails. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lambent::cli {

std::string base64_encode(std::string_view bytes);
// Nothing if the text is not base64.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace lambent::cli
