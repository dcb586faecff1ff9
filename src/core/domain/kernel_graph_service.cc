#include "core/domain/kernel_graph_service.h"

#include <algorithm>

namespace lambent {

bool is_graph_digest(std::string_view text) {
  constexpr size_t kDigits = 64;
  return text.size() == kDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace lambent
