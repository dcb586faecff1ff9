#include "gpu/bundle/program_source.h"

#include <algorithm>
#include <set>

#include "gpu/bundle/inline_ptx.h"
#include "gpu/bundle/launch_head.h"
#include "gpu/bundle/source_text.h"

namespace lambent::bundle {
namespace {

constexpr size_t kMostInstantiationBytes = 16 * 1024;
constexpr std::string_view kInstantiationWord = "LAMBENT_INSTANTIATION(";  // program_kernels.cc
constexpr std::string_view kLaunchWord = "LAMBENT_LAUNCH ";                // host/failures.h

class Rewriting {
 public:
  Rewriting(std::string_view text, const CopyOfHeader& copy_of, std::vector<std::string>* headers,
            std::vector<MacroEvent>* events)
      : text_(text), copy_of_(copy_of), headers_(headers), events_(events) {}

  const DeviceWords& words() const { return words_; }

  std::string run() {
    while (at_ < text_.size()) {
      close_instantiation();
      step();
    }
    close_instantiation();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      in_directive_ = in_directive_ && is_continued(text_, at_);
      only_spaces_ = true;
      copy(1);
    } else if (is_space(c)) {
      copy(1);
    } else if (const size_t end = end_of_comment(text_, at_); end != at_) {
      copy(end - at_);
    } else if (c == '#' && only_spaces_) {
      in_directive_ = true;
      only_spaces_ = false;
      of_directive_.assign(1, {out_.size(), 1, '#'});
      directive();
    } else {
      only_spaces_ = false;
      if (c == '"' || c == '\'') {
        note(1);
        copy(end_of_literal(text_, at_) - at_);
      } else if (in_word(c)) {
        word();
      } else if (!launch()) {
        note(1);
        punctuation(c);
        last_word_ = {};
        copy(1);
      }
    }
  }

  std::vector<Token>& tokens() { return in_directive_ ? of_directive_ : of_statement_; }
  void note(size_t length) {
    if (text_[at_] != '\\') tokens().push_back({out_.size(), length, text_[at_]});
  }
  void copy(size_t count) {
    out_ += text_.substr(at_, count);
    at_ = std::min(at_ + count, text_.size());
  }
  void insert(size_t at, std::string_view text) {
    out_.insert(at, text);
    auto& all = tokens();
    for (auto token = all.rbegin(); token != all.rend() && token->at >= at; ++token)
      token->at += text.size();
  }
  // Leaves out what is before `end`, but no end of a line.
  void drop(size_t end) {
    for (; at_ < end; ++at_) {
      if (text_[at_] == '\n') out_ += in_directive_ ? "\\\n" : "\n";
    }
  }

  void directive() {
    size_t at = at_ + 1;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    const std::string_view name =
        text_.substr(at, at < text_.size() ? end_of_word(text_, at) - at : 0);
    in_define_ = name == "define";
    branch(name);
    if (!starts(text_, at, "include")) return copy(1);
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

  // Every branch of an #if begins with what was open before it.
  void branch(std::string_view directive) {
    if (directive == "if" || directive == "ifdef" || directive == "ifndef") {
      before_branches_.push_back(open_);
    } else if (before_branches_.empty()) {
      return;
    } else if (directive.starts_with("el")) {
      open_ = before_branches_.back();
    } else if (directive == "endif") {
      before_branches_.pop_back();
    }
  }

  void word() {
    const size_t end = end_of_word(text_, at_);
    const std::string_view found = text_.substr(at_, end - at_);
    const bool raw =
        found == "R" || found == "u8R" || found == "uR" || found == "UR" || found == "LR";
    if (raw && end < text_.size() && text_[end] == '"') {
      note(1);
      return copy(end_of_raw_string(text_, end) - at_);
    }
    if (found == "static" && is_of_device(end)) return drop(end);
    if (found == "inline" && is_kernel(end)) return drop(end);
    if (found == "__shared__" && !in_directive_ && !open_.says_extern && !says_extern(end)) {
      replace(end, "LAMBENT_SHARED");
      last_word_ = found;
      return;
    }
    // C++ has it before such words only, nvcc behind them too.
    if (found == "alignas" && last_word_ == "__shared__") return replace(end, "__align__");
    if ((found == "asm" || found == "__asm__" || found == "__asm") && !in_directive_) {
      if (assembly(end)) return;
    }
    if (!in_directive_) {
      if (found == "__device__" || found == "__global__") open_.says_device = true;
      if (is_device_word(found)) open_.says_memory = true;
      if (found == "__host__") open_.says_host = true;
      if (found == "extern") open_.says_extern = true;
    }
    note_device_words(found);
    tell(found, end);
    if (found == "template") instantiation(end);
    note(end - at_);
    copy(end - at_);
    if (found == "__has_include" && in_directive_) asked_header();
    if (found == "namespace") name_namespace();
    last_word_ = found;
  }

  // A function whose declaration has a word that may be a macro for __device__ is not surely the
  // host's.
  void note_device_words(std::string_view found) {
    const bool of_device = found == "__device__" || found == "__global__";
    if (in_directive_) {
      if (in_define_ && of_directive_.size() == 2) defined_ = found;
      if (in_define_ && of_device) device_macros_.insert(defined_);
    } else if (of_device || found == "constexpr" || device_macros_.contains(found) ||
               (!is_on_host() && is_in_capitals(found))) {
      open_.says_perhaps_device = true;
    }
    const bool of_assembly =
        last_word_ == "asm" || last_word_ == "__asm__" || last_word_ == "__asm";
    if (found == "volatile" && !of_assembly &&
        (in_directive_ || open_.says_perhaps_device || !is_on_host())) {
      words_.has_volatile = true;
    }
    static const std::set<std::string_view> kLaunching = {"cudaMemcpyAsync", "cudaMemcpy2DAsync",
                                                          "cudaMemsetAsync", "cudaMemset2DAsync"};
    if (kLaunching.contains(found) && (in_directive_ || is_on_device())) words_.launches = true;
  }
  static bool is_in_capitals(std::string_view word) {
    const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
    const auto is_large = [](char c) { return c >= 'A' && c <= 'Z'; };
    return word.size() > 1 && (is_large(word[0]) || word[0] == '_') &&
           std::none_of(word.begin(), word.end(), is_small) &&
           std::any_of(word.begin(), word.end(), is_large);
  }

  // The statement whose word ends here: PTX becomes calls, and the assembly of the host's own
  // functions stays under the word that kernel.h leaves alone.
  bool assembly(size_t end) {
    const AsmStatement statement = read_asm(text_, end);
    if (statement.is_ptx && statement.refusal.empty()) {
      out_ += statement.code;
      at_ = statement.end;
      return true;
    }
    // What only looks like PTX in code of the host is for its compiler to judge.
    if (statement.is_ptx ? is_on_device() : in_device_body() && !statement.is_empty) {
      fail(statement.refusal.empty() ? "inline PTX is not supported in host kernels"
                                     : statement.refusal);
      return false;
    }
    replace(end, "__asm__");
    last_word_ = "asm";
    return true;
  }

  void tell(std::string_view word, size_t end) {
    if (events_ == nullptr) return;
    // Not what comes third behind a brace or a semicolon of the definition.
    if (in_define_ && of_directive_.size() == 2 && of_directive_[0].first == '#' &&
        of_directive_[1].of(out_) == "define") {
      size_t line = text_.find('\n', end);
      while (line != std::string_view::npos && is_continued(text_, line))
        line = text_.find('\n', line + 1);
      events_->push_back({MacroEvent::kDefined, std::string(word),
                          std::string(text_.substr(end, std::min(line, text_.size()) - end))});
    } else if (told_.insert(word).second) {
      events_->push_back({MacroEvent::kUsed, std::string(word), ""});
    }
  }

  // `template __global__ void kernel<16>(...);`: kernels are inlined where they are used, and what
  // is inline cannot be instantiated explicitly. So that is left to those who look for kernels.
  void instantiation(size_t at) {
    if (last_word_ == "extern" || at_ < end_of_instantiation_) return;
    bool kernel = false;
    size_t behind = at;
    for (const size_t most = at + kMostInstantiationBytes; at < text_.size() && at < most;) {
      const char c = text_[at];
      if (c == '\n' && in_directive_ && !is_continued(text_, at)) break;
      if (const size_t end = end_of_comment(text_, at); end != at) {
        at = end;
        continue;
      }
      if (c == ';') break;
      if (c == '{' || c == '}' || c == '#' || c == '"' || c == '\'') {
        if (c != '#' || !in_directive_) return;
      }
      if (c == '<' && !kernel && skip_blanks(text_, behind) == at) return;
      if (is_space(c) || c == '\\') {
        ++at;
        continue;
      }
      const size_t end = in_word(c) ? end_of_word(text_, at) : at + 1;
      const std::string_view word = text_.substr(at, end - at);
      if (word == "template") return;
      kernel = kernel || word == "__global__";
      behind = at = end;
    }
    if (!kernel) return;
    out_ += kInstantiationWord;
    end_of_instantiation_ = behind;
    instantiates_ = true;
  }
  void close_instantiation() {
    if (!instantiates_ || at_ < end_of_instantiation_) return;
    out_ += ')';
    instantiates_ = false;
  }

  // Behind `__has_include`: the copy is there if the header is.
  void asked_header() {
    size_t at = at_;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t' || text_[at] == '(')) ++at;
    if (at >= text_.size() || text_[at] != '"') return;
    const size_t end = end_of_literal(text_, at);
    if (end < at + 2 || text_[end - 1] != '"') return;
    const std::string copy_there = copy_of_(text_.substr(at + 1, end - at - 2), true);
    if (copy_there.empty()) return;
    copy(at - at_);
    out_ += "\"" + copy_there + "\"";
    at_ = end;
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

  // Follows braces to know what is the body of a function only of the device, and what stands in
  // no body at all.
  void punctuation(char c) {
    if (in_directive_) {
      if (c == ';' || c == '{' || c == '}') of_directive_.clear();
      return;
    }
    if (c == '(') ++open_.parentheses;
    if (c == ')') --open_.parentheses;
    if (c == '{') {
      const Scope around = scopes_[open_.scope];
      const bool on_device = open_.says_device && open_.parentheses == 0;
      const Opened opened = what_opens();
      const bool in_function =
          opened == Opened::kFunction || (opened == Opened::kOther && around.in_function);
      const bool on_host = in_function && (around.on_host || !around.in_function) && !on_device &&
                           !around.on_device && !open_.says_perhaps_device;
      scopes_.push_back({open_.scope, around.is_namespace && opens_namespace(),
                         around.of_device || (on_device && !open_.says_host),
                         around.on_device || on_device, in_function, on_host});
      open_.scope = scopes_.size() - 1;
    }
    if (c == '}') open_.scope = scopes_[open_.scope].around;
    if (c != ';' && c != '{' && c != '}') return;
    of_statement_.clear();
    if (open_.parentheses == 0) {
      open_.says_device = open_.says_memory = open_.says_host = open_.says_extern = false;
      open_.says_perhaps_device = false;
    }
  }
  bool in_device_body() const { return scopes_[open_.scope].of_device; }
  bool is_on_device() const { return scopes_[open_.scope].on_device; }
  bool is_on_host() const { return scopes_[open_.scope].on_host; }
  enum class Opened : uint8_t { kType, kFunction, kOther };
  // At the brace behind of_statement_: `template <class T> void f(struct A) {` is a function,
  // `struct alignas(8) A {` a type.
  Opened what_opens() const {
    int depth = 0;
    bool has_parentheses = false;
    for (const Token& token : of_statement_) {
      const char c = token.first;
      if (c == '(' || c == '<' || c == '[') ++depth;
      if (c == ')' || c == '>' || c == ']') --depth;
      has_parentheses = has_parentheses || c == ')';
      if (depth != 0 || !in_word(c)) continue;
      const std::string_view word = token.of(out_);
      if (word == "class" || word == "struct" || word == "union" || word == "enum") {
        return Opened::kType;
      }
    }
    return has_parentheses ? Opened::kFunction : Opened::kOther;
  }
  // At the brace behind of_statement_: `namespace a {`, `extern "C" {`.
  bool opens_namespace() const {
    const size_t count = of_statement_.size() - 1;  // the last is the brace
    if (count >= 2 && of_statement_[count - 1].first == '"' &&
        of_statement_[count - 2].of(out_) == "extern") {
      return true;
    }
    return std::any_of(of_statement_.begin(), of_statement_.end(),
                       [&](const Token& token) { return token.of(out_) == "namespace"; });
  }

  // Whether `static`, which ends here, belongs to a kernel or to a variable of the device outside
  // of functions and classes. Functions keep it: in a class it means something else.
  bool is_of_device(size_t at) const {
    if (last_word_ == "__global__") return true;
    bool device = open_.says_memory && !in_directive_;
    while ((at = skip_blanks(text_, at)) < text_.size()) {
      const char c = text_[at];
      if (in_word(c)) {
        const size_t end = end_of_word(text_, at);
        const std::string_view found = text_.substr(at, end - at);
        if (found == "__global__") return true;
        device = device || is_device_word(found);
        at = skip_blanks(text_, end);
        if (at < text_.size() && text_[at] == '(') {
          at = skip_blanks(text_, end_of_brackets(text_, at));
          if (!has_argument(found) && !goes_on(at)) return false;
        }
      } else if (c == '[' && starts(text_, at, "[[")) {
        at = end_of_brackets(text_, at);
      } else if (c == ';' || c == '=' || c == '{' || c == '[') {
        return device && scopes_[open_.scope].is_namespace;
      } else if (c == '(' || c == '}' || c == ')' || c == '#') {
        return false;
      } else {
        ++at;
      }
    }
    return false;
  }
  // Whether `extern` stands behind `__shared__`, which ends here.
  bool says_extern(size_t at) const {
    while ((at = skip_blanks(text_, at)) < text_.size() && in_word(text_[at])) {
      const size_t end = end_of_word(text_, at);
      if (text_.substr(at, end - at) == "extern") return true;
      at = end;
    }
    return false;
  }
  // The words of a declaration that parentheses may follow.
  static bool has_argument(std::string_view word) {
    return word == "__align__" || word == "alignas" || word == "__attribute__" ||
           word == "__launch_bounds__" || word == "decltype" || word == "__declspec";
  }
  // Whether a declaration goes on behind `word(...)`, which then was a macro and no function.
  bool goes_on(size_t at) const {
    if (at >= text_.size() || !in_word(text_[at])) return false;
    const std::string_view word = text_.substr(at, end_of_word(text_, at) - at);
    return word != "noexcept" && word != "const" && word != "requires" && word != "try" &&
           word != "__attribute__";
  }
  // Whether `inline`, which ends here, stands before `__global__`, in whose place it would be
  // twice.
  bool is_kernel(size_t at) const {
    at = skip_blanks(text_, at);
    return last_word_ == "__global__" || starts(text_, at, "__global__");
  }
  static bool is_device_word(std::string_view word) {
    return word == "__device__" || word == "__constant__" || word == "__managed__";
  }

  void name_namespace() {
    const size_t open = skip_blanks(text_, at_);
    if (open >= text_.size() || text_[open] != '{') return;
    insert(out_.size() - std::string_view("namespace").size(), "inline ");
    out_ += " ";
    out_ += kUnnamedNamespace;
  }

  // After `<<<` at `at`, or after `<< <`, which nvcc takes as well; 0: neither is there.
  size_t end_of_opening(size_t at) const {
    if (starts(text_, at, "<<<")) return at + 3;
    if (!starts(text_, at, "<<")) return 0;
    const size_t third = skip_blanks(text_, at + 2);
    return third < text_.size() && text_[third] == '<' ? third + 1 : 0;
  }

  // The same of `>>>`; `>> >` only for a launch that was opened so, for it may close templates too.
  size_t end_of_closing(size_t at, bool is_spaced) const {
    if (starts(text_, at, ">>>")) {
      // `>>>>`: the first closes a list of template arguments.
      while (starts(text_, at + 1, ">>>")) ++at;
      return at + 3;
    }
    if (!is_spaced || !starts(text_, at, ">>")) return 0;
    const size_t third = skip_blanks(text_, at + 2);
    return third < text_.size() && text_[third] == '>' ? third + 1 : 0;
  }

  // Before the `>>>` that ends here.
  size_t end_of_configuration(size_t closed) const {
    for (int found = 0; found < 3;) found += text_[--closed] == '>';
    return closed;
  }

  // In the body of a kernel: `k<<<grid, block>>>` becomes `nested([](auto... a) { k(a...); }, grid,
  // block)`, which the parameters follow.
  void nested_launch(size_t head, std::string_view configuration) {
    insert(head, "::lambent::host::nested([](auto... lambent_given) { ");
    out_ += "(lambent_given...); }, ";
    out_ += configuration;
    out_ += ')';
    last_word_ = {};
  }

  // At `<<<`: leaves out the configuration, if this is a launch by the host.
  bool launch() {
    const size_t opened = end_of_opening(at_);
    if (opened == 0 || (in_directive_ && !in_define_)) return false;
    int depth = 0;
    for (size_t at = opened; at < text_.size();) {
      const char c = text_[at];
      if (const size_t end = end_of_comment(text_, at); end != at) {
        at = end;
        continue;
      }
      if (c == '"' || c == '\'') {
        at = end_of_literal(text_, at);
        continue;
      }
      if (c == ';' && depth == 0) return false;
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      const size_t closed = depth == 0 ? end_of_closing(at, opened != at_ + 3) : 0;
      if (closed != 0) {
        const size_t head = head_of_launch(tokens(), out_, in_directive_);
        if (head == std::string::npos && !in_directive_) return false;
        if (in_device_body() && !in_directive_) {
          words_.launches = true;
          nested_launch(head, text_.substr(opened, end_of_configuration(closed) - opened));
          at_ = closed;
          return true;
        }
        drop(closed);
        last_word_ = {};
        if (head == std::string::npos) {
          // In a macro, whose use is the error.
          out_ +=
              " _Pragma(\"GCC error \\\"a macro with a launch without its kernel is not "
              "supported in host kernels\\\"\") ";
          return true;
        }
        insert(head, kLaunchWord);
        return true;
      }
      ++at;
    }
    return false;
  }

  const std::string_view text_;
  const CopyOfHeader& copy_of_;
  std::vector<std::string>* const headers_;
  std::vector<MacroEvent>* const events_;
  DeviceWords words_;
  std::set<std::string_view> told_;
  std::set<std::string_view> device_macros_;  // whose bodies say __device__ or __global__
  std::string_view defined_;                  // by this #define
  size_t end_of_instantiation_ = 0;
  bool instantiates_ = false;
  std::string out_;
  size_t at_ = 0;
  std::string_view last_word_;
  // What is open here: braces, of which scopes_ tells, and a declaration.
  struct Open {
    size_t scope = 0;
    int parentheses = 0;
    bool says_device = false;  // the declaration so far
    bool says_memory = false;
    bool says_host = false;
    bool says_extern = false;
    bool says_perhaps_device = false;
  };
  struct Scope {
    size_t around;
    bool is_namespace;
    bool of_device;  // and of nothing else
    bool on_device;  // perhaps of the host too
    bool in_function;
    bool on_host;  // surely of nothing else
  };
  Open open_;
  std::vector<Open> before_branches_;
  std::vector<Scope> scopes_ = {{0, true, false, false, false, false}};
  std::vector<Token> of_statement_, of_directive_;
  bool only_spaces_ = true;  // on this line so far
  bool in_directive_ = false;
  bool in_define_ = false;
};

}  // namespace

std::string rewrite_program(std::string_view text, const CopyOfHeader& copy_of,
                            std::vector<std::string>* headers, std::vector<MacroEvent>* events,
                            DeviceWords* words) {
  Rewriting rewriting(text, copy_of, headers, events);
  std::string result = rewriting.run();
  if (words != nullptr) *words = rewriting.words();
  return result;
}

}  // namespace lambent::bundle
