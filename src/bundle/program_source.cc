#include "bundle/program_source.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/fd.h"

namespace lambent::bundle {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMostSourceBytes = 16 * 1024 * 1024;
constexpr int kMostNestedHeaders = 64;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }

class Rewriting {
 public:
  Rewriting(std::string_view text, const CopyOfHeader& copy_of, std::vector<std::string>* headers)
      : text_(text), copy_of_(copy_of), headers_(headers) {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      in_directive_ = in_directive_ && at_ > 0 && text_[at_ - 1] == '\\';
      only_spaces_ = true;
      copy(1);
    } else if (is_space(c)) {
      copy(1);
    } else if (const size_t end = end_of_comment(at_); end != at_) {
      copy(end - at_);
    } else if (c == '#' && only_spaces_) {
      in_directive_ = true;
      only_spaces_ = false;
      directive();
    } else {
      only_spaces_ = false;
      if (c == '"' || c == '\'') {
        copy(end_of_literal(at_) - at_);
      } else if (in_word(c)) {
        word();
      } else if (!launch()) {
        punctuation(c);
        last_word_ = {};
        copy(1);
      }
    }
  }

  bool starts(size_t at, std::string_view with) const { return text_.substr(at).starts_with(with); }
  void copy(size_t count) {
    out_ += text_.substr(at_, count);
    at_ = std::min(at_ + count, text_.size());
  }
  // Leaves out what is before `end`, but no end of a line.
  void drop(size_t end) {
    for (; at_ < end; ++at_) {
      if (text_[at_] == '\n') out_ += in_directive_ ? "\\\n" : "\n";
    }
  }

  // Behind the comment that begins here, or `at` if none does.
  size_t end_of_comment(size_t at) const {
    if (starts(at, "//")) {
      size_t end = text_.find('\n', at);
      while (end != std::string_view::npos && text_[end - 1] == '\\')
        end = text_.find('\n', end + 1);
      return std::min(end, text_.size());
    }
    if (!starts(at, "/*")) return at;
    const size_t end = text_.find("*/", at + 2);
    return end == std::string_view::npos ? text_.size() : end + 2;
  }
  size_t end_of_literal(size_t at) const {
    const char quote = text_[at++];
    while (at < text_.size() && text_[at] != quote && text_[at] != '\n')
      at += text_[at] == '\\' ? 2 : 1;
    return std::min(at + 1, text_.size());
  }
  size_t end_of_raw_string(size_t at) const {  // `at` is at its quote
    const size_t open = text_.find('(', at);
    if (open == std::string_view::npos || open - at > 17) return end_of_literal(at);
    const std::string close = ")" + std::string(text_.substr(at + 1, open - at - 1)) + "\"";
    const size_t end = text_.find(close, open);
    return end == std::string_view::npos ? text_.size() : end + close.size();
  }
  size_t end_of_word(size_t at) const {
    const bool number = std::isdigit(static_cast<unsigned char>(text_[at]));
    while (at < text_.size()) {
      const bool separator =
          number && text_[at] == '\'' && at + 1 < text_.size() && in_word(text_[at + 1]);
      if (!in_word(text_[at]) && !separator) break;
      ++at;
    }
    return at;
  }
  size_t skip_blanks(size_t at) const {
    while (at < text_.size()) {
      const size_t end = end_of_comment(at);
      if (end != at) {
        at = end;
      } else if (is_space(text_[at])) {
        ++at;
      } else {
        break;
      }
    }
    return at;
  }

  void directive() {
    size_t at = at_ + 1;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    if (!starts(at, "include")) return copy(1);
    at += 7;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    if (at >= text_.size() || (text_[at] != '"' && text_[at] != '<')) return copy(1);
    const size_t end = text_.find(text_[at] == '"' ? '"' : '>', at + 1);
    if (end == std::string_view::npos || text_.substr(at, end - at).find('\n') != std::string::npos)
      return copy(1);
    const std::string_view file = text_.substr(at + 1, end - at - 1);
    const bool quoted = text_[at] == '"';
    const std::string instead = copy_of_(file, quoted);
    if (instead.empty() && !quoted &&
        std::find(headers_->begin(), headers_->end(), file) == headers_->end()) {
      headers_->emplace_back(file);
    }
    if (instead.empty()) return copy(end + 1 - at_);
    out_ += "#include \"" + instead + "\"";
    at_ = end + 1;
  }

  void word() {
    const size_t end = end_of_word(at_);
    const std::string_view found = text_.substr(at_, end - at_);
    if (end < text_.size() && text_[end] == '"' && found.ends_with('R')) {
      return copy(end_of_raw_string(end) - at_);
    }
    if (found == "static" && is_of_device(end)) return drop(end);
    if (found == "inline" && is_kernel(end)) return drop(end);
    if (found == "__shared__" && last_word_ != "extern" && !in_directive_) {
      return replace(end, "LAMBENT_SHARED");
    }
    if ((found == "asm" || found == "__asm__") && in_device_body()) {
      fail("inline PTX is not supported in host kernels");
    }
    if (found == "__device__" || found == "__global__") says_device_ = true;
    if (found == "__host__") says_host_ = true;
    copy(end - at_);
    if (found == "namespace") name_namespace();
    last_word_ = found;
  }

  void replace(size_t end, std::string_view with) {
    out_ += with;
    at_ = end;
    last_word_ = {};
  }
  // An error where the compiler comes by, unless the preprocessor leaves it out.
  void fail(std::string_view message) {
    if (in_directive_) return;
    out_ += " _Pragma(\"GCC error \\\"";
    out_ += message;
    out_ += "\\\"\") ";
  }

  // Follows braces to know what is the body of a function of the device alone.
  void punctuation(char c) {
    if (in_directive_) return;
    if (c == '(') ++parentheses_;
    if (c == ')') --parentheses_;
    if (c == '{') {
      if (says_device_ && !says_host_ && parentheses_ == 0 && !in_device_body()) {
        device_body_ = braces_;
      }
      ++braces_;
    }
    if (c == '}') {
      --braces_;
      if (braces_ <= device_body_) device_body_ = kNoBody;
    }
    if (parentheses_ == 0 && (c == ';' || c == '{' || c == '}')) says_device_ = says_host_ = false;
  }
  bool in_device_body() const { return device_body_ != kNoBody; }

  // Whether `static`, which ends here, belongs to a kernel or to a variable of the device.
  // Functions keep it: in a class it means something else.
  bool is_of_device(size_t at) const {
    bool device = is_device_word(last_word_);
    if (last_word_ == "__global__") return true;
    for (;;) {
      at = skip_blanks(at);
      if (at >= text_.size() || !in_word(text_[at])) break;
      const size_t end = end_of_word(at);
      const std::string_view found = text_.substr(at, end - at);
      if (found == "__global__") return true;
      device = device || is_device_word(found);
      at = end;
    }
    if (!device) return false;
    at = text_.find_first_of("(;={[", at);
    return at != std::string_view::npos && text_[at] != '(';
  }
  // Whether `inline`, which ends here, stands before `__global__`, in whose place it would be
  // twice.
  bool is_kernel(size_t at) const {
    at = skip_blanks(at);
    return last_word_ == "__global__" || starts(at, "__global__");
  }
  static bool is_device_word(std::string_view word) {
    return word == "__device__" || word == "__constant__" || word == "__managed__";
  }

  void name_namespace() {
    const size_t open = skip_blanks(at_);
    if (open >= text_.size() || text_[open] != '{') return;
    out_.insert(out_.size() - std::string_view("namespace").size(), "inline ");
    out_ += " ";
    out_ += kUnnamedNamespace;
  }

  // At `<<<`: leaves out the configuration, if this is a launch.
  bool launch() {
    if (!starts(at_, "<<<")) return false;
    int depth = 0;
    for (size_t at = at_ + 3; at < text_.size();) {
      const char c = text_[at];
      if (const size_t end = end_of_comment(at); end != at) {
        at = end;
        continue;
      }
      if (c == '"' || c == '\'') {
        at = end_of_literal(at);
        continue;
      }
      if (c == ';' && depth == 0) return false;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth == 0 && starts(at, ">>>")) {
        // `>>>>`: the first closes a list of template arguments.
        while (starts(at + 1, ">>>")) ++at;
        drop(at + 3);
        last_word_ = {};
        if (in_device_body()) {
          fail("a kernel launches a kernel: dynamic parallelism is not supported in host kernels");
        }
        return true;
      }
      ++at;
    }
    return false;
  }

  const std::string_view text_;
  const CopyOfHeader& copy_of_;
  std::vector<std::string>* const headers_;
  std::string out_;
  size_t at_ = 0;
  std::string_view last_word_;
  static constexpr int kNoBody = -1000000;
  bool says_device_ = false;  // the declaration so far
  bool says_host_ = false;
  int parentheses_ = 0;
  int braces_ = 0;
  int device_body_ = kNoBody;  // the braces around it
  bool only_spaces_ = true;    // on this line so far
  bool in_directive_ = false;
};

// Writes rewritten copies of headers, each once.
class LocalHeaders {
 public:
  LocalHeaders(const std::vector<std::string>& folders, std::string scratch,
               std::vector<std::string>* headers)
      : folders_(folders), scratch_(std::move(scratch)), headers_(headers) {}

  Result<std::string> rewritten(const fs::path& file) {
    std::error_code none;
    const fs::path whole = fs::absolute(file, none);
    ASSIGN_OR_RETURN(const std::string text, read_file(whole.string(), kMostSourceBytes));
    const CopyOfHeader copy_of = [&](std::string_view name, bool quoted) {
      return copy(quoted ? whole.parent_path() : fs::path(), std::string(name));
    };
    ++depth_;
    std::string result = rewrite_program(text, copy_of, headers_);
    --depth_;
    return "#line 1 \"" + whole.string() + "\"\n" + result + "\n";
  }

 private:
  std::string copy(const fs::path& beside, const std::string& name) {
    std::vector<fs::path> places(folders_.begin(), folders_.end());
    if (!beside.empty()) places.insert(places.begin(), beside);
    for (const auto& folder : places) {
      std::error_code none;
      const fs::path found = fs::canonical(folder / name, none);
      if (none || !fs::is_regular_file(found, none)) continue;
      if (auto known = copies_.find(found); known != copies_.end()) return known->second;
      if (depth_ >= kMostNestedHeaders) return "";
      const std::string path =
          scratch_ + "/" + std::to_string(copies_.size()) + "_" + found.filename().string();
      // Known before it is read, for headers that include each other.
      copies_[found] = path;
      const auto text = rewritten(found);
      if (!text.ok() || !write_file_atomically(path, *text, false).ok()) return "";
      return path;
    }
    return "";
  }

  const std::vector<std::string>& folders_;
  const std::string scratch_;
  std::vector<std::string>* const headers_;
  std::map<fs::path, std::string> copies_;
  int depth_ = 0;
};

}  // namespace

std::string rewrite_program(std::string_view text, const CopyOfHeader& copy_of,
                            std::vector<std::string>* headers) {
  return Rewriting(text, copy_of, headers).run();
}

Result<ProgramSource> read_program(const std::vector<std::string>& files,
                                   const std::vector<std::string>& folders,
                                   const std::string& scratch_folder) {
  std::error_code none;
  ProgramSource source;
  LocalHeaders local(folders, fs::absolute(scratch_folder, none).string(), &source.headers);
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string text, local.rewritten(file));
    source.text += text;
  }
  return source;
}

}  // namespace lambent::bundle
