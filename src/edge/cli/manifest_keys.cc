#include "edge/cli/manifest_keys.h"

#include <algorithm>

namespace lambent::cli {

Error wrong_key(const toml::table& table, std::string_view key, const std::string& file,
                const std::string& message) {
  const toml::node* node = table.get(key);
  const uint32_t line = node == nullptr ? 0 : node->source().begin.line;
  const std::string place = line == 0 ? "" : " line " + std::to_string(line);
  return Error{ErrorCode::kInvalidArgument, file + place + ": " + message};
}

Result<std::optional<std::vector<std::string>>> words_of(const toml::table& table,
                                                         std::string_view key,
                                                         const std::string& file) {
  std::optional<std::vector<std::string>> words;
  const toml::node* node = table.get(key);
  if (node == nullptr) return words;
  const toml::array* list = node->as_array();
  const auto is_text = [](const toml::node& word) { return word.is_string(); };
  if (list == nullptr || !std::all_of(list->begin(), list->end(), is_text)) {
    return wrong_key(table, key, file,
                     std::string(key) + " is a list of words, such as [\"python3\", \"app.py\"]");
  }
  words.emplace();
  for (const toml::node& word : *list) words->push_back(word.as_string()->get());
  return words;
}

}  // namespace lambent::cli
