#include "core/base/message_archive.h"

namespace lambent {

void archive_text(StateArchive& archive, std::string& text, size_t most) {
  if (!archive.reading() && text.size() > most) {
    std::string beginning = text.substr(0, most);
    return archive.field(beginning);
  }
  archive.field(text);
  archive.expect(text.size() <= most);
}

void archive_map(StateArchive& archive, std::map<std::string, std::string>& entries) {
  const size_t size = archive.count(entries.size());
  if (!archive.reading()) {
    for (auto& [key, value] : entries) {
      std::string name = key;
      archive.field(name);
      archive.field(value);
    }
    return;
  }
  entries.clear();
  for (size_t i = 0; i < size && archive.ok(); ++i) {
    std::string key;
    archive.field(key);
    std::string value;
    archive.field(value);
    archive.expect(entries.emplace(std::move(key), std::move(value)).second);
  }
}

}  // namespace lambent
