// JsonReader: reads JSON (RFC 8259) front to back without building anything, so that tensors go
// straight from text to bytes. A cursor over a text that outlives it; one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lambent::kernel_graph {

// The first mistake ends reading: from then on every call answers false or nothing, and problem()
// says what it was and where.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  enum class Kind { kObject, kArray, kString, kNumber, kWord, kNothing };
  // Of the value that comes next. kWord: true, false or null.
  Kind next_kind();

  // { and }, [ and ]: `if (reader.enter('{')) while (reader.next_key(first, key)) ...`, with
  // `first` true before the loop. The key is valid until the next call.
  bool enter(char bracket);
  bool next_key(bool& first, std::string_view& key);
  bool next_element(bool& first);

  // A string without its escapes, valid until the next call.
  bool string(std::string_view& value);
  // A number, word or string as it stands in the text, strings with their quotes; empty if what
  // comes is none of these.
  std::string_view scalar();
  // Reads over one value of any kind, at most limits::kJsonDepth deep.
  bool skip();
  // Whether nothing but white space is left.
  bool at_end();

  size_t position() const { return at_; }
  // Goes back to where position() was.
  void return_to(size_t position) { at_ = position; }
  size_t left() const { return text_.size() - at_; }

  bool failed() const { return problem_ != nullptr; }
  // "at byte 17: ',' or '}' is missing".
  std::string problem() const;

 private:
  bool fail(const char* problem);
  void skip_space();
  bool expect(char c, const char* problem);
  std::string_view number();
  std::string_view word();
  // The string's text between its quotes; `plain` if nothing in it is escaped.
  bool quoted(std::string_view& inside, bool& plain);
  bool unescape(std::string_view inside);

  std::string_view text_;
  size_t at_ = 0;
  const char* problem_ = nullptr;
  size_t problem_at_ = 0;
  std::string unescaped_;
};

}  // namespace lambent::kernel_graph
