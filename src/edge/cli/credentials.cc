#include "edge/cli/credentials.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lambent::cli {
namespace {

constexpr size_t kMostToken = 512;  // characters; ours have 72
constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace

http::Headers headers_of(const http::Request& request, const Credentials& credentials) {
  http::Headers headers = request.headers;
  if (!credentials.token.empty()) headers.add("Authorization", "Bearer " + credentials.token);
  if (!credentials.tenant.empty()) headers.add("X-Lambent-Tenant", credentials.tenant);
  return headers;
}

Result<std::string> token_in(std::string_view text, std::string_view source) {
  const size_t first = text.find_first_not_of(kBlanks);
  const std::string_view token =
      first == std::string_view::npos
          ? std::string_view()
          : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
  // What stands in a header must end no line of it.
  const bool is_word =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isgraph(c) != 0; });
  if (token.empty() || token.size() > kMostToken || !is_word) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(source) +
                     " has no token: one word that begins with lambent_ is expected, as 'lambent "
                     "tokens create' printed it"};
  }
  return std::string(token);
}

}  // namespace lambent::cli
