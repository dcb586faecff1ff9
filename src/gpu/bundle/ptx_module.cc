#include "gpu/bundle/ptx_module.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "gpu/bundle/ptx_words.h"
#include "gpu/bundle/source_text.h"

namespace lambent::bundle::ptx {
namespace {

constexpr uint64_t kMostAlignment = 4096;
constexpr uint64_t kMostElements = uint64_t{1} << 32;

bool in_name(char c) { return in_word(c) || c == '$' || c == '%'; }

Error unreadable(std::string_view text) {
  std::string shown(text.substr(0, 80));
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  return Error{ErrorCode::kInvalidArgument, "PTX that cannot be read: " + shown};
}

size_t end_of_line(std::string_view text, size_t at) {
  const size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

unsigned digits(std::string_view text, size_t at) {
  unsigned number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && number < 1000; ++at) {
    number = number * 10 + static_cast<unsigned>(text[at] - '0');
  }
  return number;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (!is_space(c)) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

// Behind the closing bracket of the one at `at`; npos if it is not closed. Strings are passed over.
size_t behind_bracket(std::string_view text, size_t at) {
  const char open = text[at];
  const char close = open == '(' ? ')' : open == '{' ? '}' : ']';
  size_t depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == '"') {
      i = end_of_literal(text, i) - 1;
    } else if (text[i] == open) {
      ++depth;
    } else if (text[i] == close && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

Result<std::vector<Parameter>> read_parameters(std::string_view inside) {
  std::vector<Parameter> parameters;
  for (const std::string& each : split(inside, ',')) {
    ASSIGN_OR_RETURN(auto parameter, read_declaration(each));
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// A directive and a blank: `.local` is no `.loc`.
bool is_directive(std::string_view text, size_t at, std::string_view name) {
  if (!starts(text, at, name)) return false;
  return at + name.size() == text.size() || is_space(text[at + name.size()]);
}

// Numbers of lines, for places that are asked in their order.
class Lines {
 public:
  explicit Lines(std::string_view text, size_t first = 1) : text_(text), line_(first) {}

  size_t of(size_t at) {
    const size_t end = std::min(at, text_.size());
    if (end > counted_) {
      line_ += static_cast<size_t>(std::count(text_.begin() + counted_, text_.begin() + end, '\n'));
      counted_ = end;
    }
    return line_;
  }

 private:
  std::string_view text_;
  size_t counted_ = 0;
  size_t line_;
};

// The statements between the braces of a function, which begin in this line.
std::vector<Statement> statements_of(std::string_view text, size_t first_line) {
  using Kind = Statement::Kind;
  std::vector<Statement> found;
  std::string current;
  Lines lines(text, first_line);
  size_t begin = 0;     // of the statement
  bool begins = true;   // nothing but blanks is in `current`
  bool is_name = true;  // nothing but blanks and what a label is made of
  const auto finish = [&](Kind kind) {
    found.push_back({kind, trimmed(current), lines.of(begin)});
    current.clear();
    begins = is_name = true;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (begins) begin = i;
    if (begins && (is_directive(text, i, ".loc") || is_directive(text, i, ".file"))) {
      i = end_of_line(text, i) - 1;
    } else if (begins && (c == '{' || c == '}')) {
      current.clear();
      finish(c == '{' ? Kind::kOpen : Kind::kClose);
    } else if (c == ';') {
      if (!begins) finish(Kind::kInstruction);
    } else if (c == ':' && !starts(text, i, "::") && (i == 0 || text[i - 1] != ':') && is_name) {
      finish(Kind::kLabel);
    } else if (c == '"') {
      const size_t end = end_of_literal(text, i);
      current += text.substr(i, end - i);
      begins = is_name = false;
      i = end - 1;
    } else {
      current += c == '\n' || c == '\t' ? ' ' : c;
      begins = begins && is_space(c);
      is_name = is_name && (in_name(c) || is_space(c));
    }
  }
  return found;
}

// By one of the words in front of a name.
void read_linkage(std::string_view word, Linkage& linkage) {
  if (word == ".visible") linkage = Linkage::kVisible;
  if (word == ".weak" || word == ".common") linkage = Linkage::kWeak;
  if (word == ".extern") linkage = Linkage::kExternal;
}

// `.maxntid 16, 16, 1` behind a kernel's parameters: how many threads that are; 0: it does not say.
uint64_t read_most_threads(std::string_view text) {
  for (const char* name : {".maxntid", ".reqntid"}) {
    const size_t at = text.find(name);
    if (at == std::string_view::npos) continue;
    uint64_t threads = 1;
    for (size_t next = skip_blanks(text, at + 8); next < text.size();) {
      const unsigned extent = digits(text, next);
      if (extent == 0) break;
      threads *= extent;
      while (next < text.size() && text[next] >= '0' && text[next] <= '9') ++next;
      next = skip_blanks(text, next);
      if (next >= text.size() || text[next] != ',') break;
      next = skip_blanks(text, next + 1);
    }
    return threads;
  }
  return 0;
}

// `.visible .entry name(...) .maxntid 256` or `.func (...) name(...)`.
Result<Function> read_head(std::string_view head) {
  Function function;
  const size_t entry = head.find(".entry"), callee = head.find(".func");
  if (entry == std::string_view::npos && callee == std::string_view::npos) return unreadable(head);
  function.is_entry = entry != std::string_view::npos;
  for (const auto& word : words_of(head.substr(0, function.is_entry ? entry : callee))) {
    read_linkage(word, function.linkage);
  }
  size_t at = skip_blanks(head, function.is_entry ? entry + 6 : callee + 5);
  const auto parentheses = [&]() -> Result<std::vector<Parameter>> {
    const size_t end = behind_bracket(head, at);
    if (end == std::string_view::npos) return unreadable(head);
    const std::string_view inside = head.substr(at + 1, end - at - 2);
    at = skip_blanks(head, end);
    return read_parameters(inside);
  };
  if (at < head.size() && head[at] == '(') {
    ASSIGN_OR_RETURN(function.results, parentheses());
  }
  while (at < head.size() && in_name(head[at])) function.name += head[at++];
  if (function.name.empty()) return unreadable(head);
  at = skip_blanks(head, at);
  if (at < head.size() && head[at] == '(') {
    ASSIGN_OR_RETURN(function.parameters, parentheses());
  }
  if (at < head.size()) function.most_threads = read_most_threads(head.substr(at));
  return function;
}

// `.visible .global .align 4 .u32 name[3] = {1, 2, 3}`; false for what is no variable.
Result<bool> read_variable(std::string_view text, Module& module, size_t function = kNowhere) {
  const size_t equals = text.find('=');
  std::string declared, attribute;
  Variable variable;
  bool is_variable = false;
  variable.module = module.modules;
  variable.function = function;
  for (const std::string& word : words_of(text.substr(0, equals))) {
    read_linkage(word, variable.linkage);
    if (word == ".global" || word == ".const" || word == ".shared" || word == ".local") {
      is_variable = true;
      variable.space = word == ".const"    ? Space::kConstant
                       : word == ".shared" ? Space::kShared
                       : word == ".local"  ? Space::kLocal
                                           : Space::kGlobal;
    } else if (word.find("(.managed)") != std::string::npos || word == ".managed") {
      variable.is_managed = true;
    } else if (!word.starts_with(".visible") && !word.starts_with(".weak") &&
               !word.starts_with(".common") && word != ".extern" &&
               !word.starts_with(".attribute")) {
      declared += " " + word;
    }
  }
  if (!is_variable) return false;
  ASSIGN_OR_RETURN(variable.shape, read_declaration(declared));
  if (equals != std::string_view::npos) variable.initial = trimmed(text.substr(equals + 1));
  module.variables.push_back(std::move(variable));
  return true;
}

// Shared memory of a single function stands in it.
Result<void> lift_shared_memory(Function& function, Module& module) {
  for (const Statement& statement : function.body) {
    if (!statement.text.starts_with(".shared")) continue;
    RETURN_IF_ERROR(read_variable(statement.text, module, module.functions.size()));
  }
  std::erase_if(function.body,
                [](const Statement& each) { return each.text.starts_with(".shared"); });
  return {};
}

bool is_line_directive(std::string_view text, size_t at) {
  for (const char* each : {".version", ".target", ".address_size", ".file", ".loc"}) {
    if (is_directive(text, at, each)) return true;
  }
  return false;
}

Result<uint64_t> read_count(const std::string& text) {
  char* end = nullptr;
  const uint64_t count = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || count > kMostElements) return unreadable(text);
  return count;
}

}  // namespace

uint64_t Parameter::bytes() const {
  const bool is_one = type == "uint8_t" || type == "int8_t" || type == "bool";
  const bool is_two = type == "uint16_t" || type == "int16_t";
  const bool is_eight = type == "uint64_t" || type == "int64_t" || type == "double";
  return (is_one ? 1 : is_two ? 2 : is_eight ? 8 : 4) * std::max<uint64_t>(count, 1);
}

Result<Parameter> read_declaration(const std::string& text) {
  Parameter found;
  const auto words = words_of(text);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == ".align" && i + 1 < words.size()) {
      ASSIGN_OR_RETURN(const uint64_t alignment, read_count(words[++i]));
      // That of a pointer says what it points to, and stands behind the type.
      if (found.type.empty()) found.alignment = alignment;
    } else if (word[0] == '.') {
      const auto type = types().find(word.substr(1));
      if (type != types().end()) found.type = type->second;
    } else {
      found.name += word;
    }
  }
  if (found.type.empty() || found.name.empty()) return unreadable(text);
  if (const size_t open = found.name.find('['); open != std::string::npos) {
    uint64_t count = 1;
    for (size_t at = open; at < found.name.size() && found.name[at] == '[';) {
      const size_t close = found.name.find(']', at);
      if (close == std::string::npos) return unreadable(text);
      const std::string number = found.name.substr(at + 1, close - at - 1);
      // An array without a size is the dynamic shared memory.
      ASSIGN_OR_RETURN(const uint64_t size,
                       number.empty() ? Result<uint64_t>(0) : read_count(number));
      if (size != 0 && count > kMostElements / size) return unreadable(text);
      count *= size;
      at = close + 1;
    }
    found.name.erase(open);
    found.count = count;
  }
  if (!std::all_of(found.name.begin(), found.name.end(), in_name)) return unreadable(text);
  found.alignment = std::max(found.alignment, found.count == 0 ? found.bytes() : 1);
  const bool is_power = (found.alignment & (found.alignment - 1)) == 0;
  if (!is_power || found.alignment > kMostAlignment) return unreadable(text);
  return found;
}

namespace {

// From `at` on, which is left where it could not be read.
Result<void> read_from(std::string_view text, size_t& at, Module& module) {
  Lines lines(text);
  for (at = skip_blanks(text, at); at < text.size(); at = skip_blanks(text, at)) {
    if (text[at] == ';') {
      ++at;
      continue;
    }
    if (is_line_directive(text, at)) {
      const std::string_view line = text.substr(at, end_of_line(text, at) - at);
      const bool is_target = starts(line, 0, ".target");
      module.has_target = module.has_target || is_target;
      module.has_version = module.has_version || starts(line, 0, ".version");
      const size_t target = is_target ? line.find("sm_") : line.npos;
      if (target != line.npos) module.target = std::max(module.target, digits(line, target + 3));
      at += line.size();
      continue;
    }
    if (starts(text, at, ".section")) {
      const size_t open = text.find('{', at);
      const size_t end = open == std::string_view::npos ? open : behind_bracket(text, open);
      if (end == std::string_view::npos) return unreadable(text.substr(at));
      at = end;
      continue;
    }
    const size_t end = text.find_first_of(";{=", at);
    if (end == std::string_view::npos) return unreadable(text.substr(at));
    if (text[end] == '{') {
      const size_t close = behind_bracket(text, end);
      if (close == std::string_view::npos) return unreadable(text.substr(at));
      ASSIGN_OR_RETURN(auto function, read_head(text.substr(at, end - at)));
      function.has_body = true;
      function.module = module.modules;
      function.body = statements_of(text.substr(end + 1, close - end - 2), lines.of(end + 1));
      RETURN_IF_ERROR(lift_shared_memory(function, module));
      module.functions.push_back(std::move(function));
      at = close;
      continue;
    }
    const size_t semicolon = text.find(';', end);
    if (semicolon == std::string_view::npos) return unreadable(text.substr(at));
    const std::string_view declaration = text.substr(at, semicolon - at);
    if (!declaration.starts_with(".pragma") && !declaration.starts_with(".alias")) {
      ASSIGN_OR_RETURN(const bool is_variable, read_variable(declaration, module));
      if (!is_variable) {
        ASSIGN_OR_RETURN(auto function, read_head(declaration));
        function.module = module.modules;
        module.functions.push_back(std::move(function));
      }
    }
    at = semicolon + 1;
  }
  return {};
}

}  // namespace

Result<void> read_module(std::string_view raw, Module& module) {
  const std::string whole = without_comments(raw);
  size_t at = 0;
  if (const auto read = read_from(whole, at, module); !read.ok()) {
    return read.error().with_context("line " + std::to_string(Lines(whole).of(at)));
  }
  if (!module.has_version || !module.has_target) {
    return Error{ErrorCode::kInvalidArgument, "a module of PTX says its .version and its .target"};
  }
  module.has_version = module.has_target = false;
  ++module.modules;
  return {};
}

}  // namespace lambent::bundle::ptx
