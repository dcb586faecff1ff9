#include "gpu/bundle/inline_ptx.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gpu/bundle/ptx_words.h"
#include "gpu/bundle/source_text.h"

namespace lambent::bundle {
namespace {

using namespace ptx;

constexpr size_t kMostInstructions = 256;

struct Operand {
  std::string constraint;  // without what says that it is written
  std::string expression;
  bool is_output = false;
  bool is_input = false;
};

struct Parts {
  std::string text;
  std::vector<Operand> operands;
};

// What a literal's characters are; its quotes are at `at` and before the end.
std::string content(std::string_view literal) {
  std::string found;
  for (size_t i = 1; i + 1 < literal.size(); ++i) {
    if (literal[i] != '\\') {
      found += literal[i];
      continue;
    }
    ++i;
    if (literal[i] == '\n') continue;
    found += literal[i] == 'n' || literal[i] == 't' || literal[i] == 'r' ? '\n' : literal[i];
  }
  return found;
}

// Literals side by side; false if there is none.
bool read_literals(std::string_view text, size_t* at, std::string* found) {
  bool any = false;
  while ((*at = skip_blanks(text, *at)) < text.size() && text[*at] == '"') {
    const size_t end = end_of_literal(text, *at);
    *found += content(text.substr(*at, end - *at));
    *at = end;
    any = true;
  }
  return any;
}

// `"=r"(x), "l"(y)` up to the next colon or the end.
bool read_operands(std::string_view text, size_t* at, bool outputs, std::vector<Operand>* found) {
  while ((*at = skip_blanks(text, *at)) < text.size() && text[*at] == '"') {
    Operand operand;
    if (!read_literals(text, at, &operand.constraint)) return false;
    operand.is_output = outputs;
    operand.is_input = !outputs || operand.constraint.find('+') != std::string::npos;
    std::erase_if(operand.constraint, [](char c) { return c == '=' || c == '+' || c == '&'; });
    *at = skip_blanks(text, *at);
    if (*at >= text.size() || text[*at] != '(') return false;
    const size_t end = end_of_brackets(text, *at);
    if (end > text.size() || end < *at + 2) return false;
    operand.expression = trimmed(text.substr(*at + 1, end - *at - 2));
    // It may be written twice, on one line.
    if (operand.expression.find('\n') != std::string::npos) {
      if (operand.expression.find_first_of("#\"") != std::string::npos) return false;
      if (operand.expression.find("//") != std::string::npos) return false;
      std::replace(operand.expression.begin(), operand.expression.end(), '\n', ' ');
    }
    found->push_back(operand);
    *at = skip_blanks(text, end);
    if (*at < text.size() && text[*at] == ',') ++*at;
  }
  return true;
}

// The inside of the parentheses.
std::optional<Parts> read_parts(std::string_view inside) {
  Parts parts;
  size_t at = 0;
  if (!read_literals(inside, &at, &parts.text)) return std::nullopt;
  for (int section = 0; at < inside.size() && inside[at] == ':'; ++section) {
    ++at;
    at = skip_blanks(inside, at);
    if (section >= 2) break;  // what is spoilt does not matter
    if (!read_operands(inside, &at, section == 0, &parts.operands)) return std::nullopt;
  }
  return at >= inside.size() || inside[at] == ':' || inside[at] == '"' ? std::optional(parts)
                                                                       : std::nullopt;
}

// Without comments: what a `;` ends, and braces that are no vector's, which open and close a scope.
std::vector<std::string> instructions_of(const std::string& text) {
  std::vector<std::string> found;
  std::string current;
  bool begins = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (starts(text, i, "//") || starts(text, i, "/*")) {
      i = end_of_comment(text, i) - 1;
      continue;
    }
    const char c = text[i];
    if (c == ';' || (begins && (c == '{' || c == '}'))) {
      if (!begins) found.push_back(trimmed(current));
      if (c != ';') found.emplace_back(1, c);
      current.clear();
      begins = true;
    } else {
      current += c;
      begins = begins && is_space(c);
    }
  }
  if (!begins) found.push_back(trimmed(current));
  return found;
}

// What a register of a constraint holds; empty for what has no type here.
std::string type_of_constraint(const std::string& constraint) {
  static const std::map<std::string, std::string> kConstraints = {
      {"r", "uint32_t"}, {"l", "uint64_t"}, {"h", "uint16_t"},
      {"f", "float"},    {"d", "double"},   {"n", "int64_t"}};
  const auto found = kConstraints.find(constraint);
  return found == kConstraints.end() ? "" : found->second;
}

class Translation {
 public:
  explicit Translation(const Parts& parts) : parts_(parts) {}

  // The body of a block, or the reason why there is none.
  bool run(std::string* code, std::string* refusal) {
    const auto instructions = instructions_of(parts_.text);
    if (instructions.size() > kMostInstructions) return refuse("too many instructions", refusal);
    std::string body;
    for (const std::string& instruction : instructions) {
      if (!translate(instruction, &body)) return refuse(instruction, refusal);
    }
    if (scopes_.size() != 1) return refuse("a { without its }", refusal);
    std::string before, after;
    for (size_t i = 0; i < parts_.operands.size(); ++i) {
      const Operand& operand = parts_.operands[i];
      const std::string type = type_of_constraint(operand.constraint);
      if (type.empty()) return refuse("constraint " + operand.constraint, refusal);
      before += type + " " + register_name(i) +
                (operand.is_input ? " = " + bits(type, operand.expression) : "{}") + "; ";
      if (operand.is_output) {
        after +=
            std::string(kSpace) + "give((" + operand.expression + "), " + register_name(i) + "); ";
      }
    }
    *code = "do { " + before + body + after + "} while (0)";
    return true;
  }

 private:
  static bool refuse(const std::string& what, std::string* refusal) {
    std::string shown = what.substr(0, 60);
    std::erase_if(shown, [](char c) { return c == '"' || c == '\\' || c == '\n'; });
    *refusal = "inline PTX is not supported in host kernels: " + shown;
    return false;
  }
  // Of the text's own.
  struct Register {
    std::string name, type;  // as C++
  };
  static std::string register_name(size_t number) { return "lambent_ptx" + std::to_string(number); }
  static std::string bits(const std::string& type, const std::string& expression) {
    return std::string(kSpace) + "bits<" + type + ">(" + expression + ")";
  }

  // A text with operands doubles the signs that are none of them.
  static std::string with_one_sign(std::string word) {
    return word.starts_with("%%") ? word.substr(1) : word;
  }

  // A register, a number or a special register, as C++; empty for anything else.
  std::string value(std::string word) const {
    word = with_one_sign(std::move(word));
    if (const std::string number = literal(word); !number.empty()) return number;
    if (const auto number = operand_number(word)) return register_name(*number);
    if (word.starts_with('%') && special_registers().contains(word.substr(1))) {
      return std::string(kSpace) + with_underscores(word.substr(1)) + "()";
    }
    const Register* local = find_local(word);
    return local == nullptr ? "" : local->name;
  }

  // `%3`, if there are so many.
  std::optional<size_t> operand_number(const std::string& word) const {
    if (word.size() < 2 || word.size() > 4 || word[0] != '%') return std::nullopt;
    if (word.find_first_not_of("0123456789", 1) != std::string::npos) return std::nullopt;
    const size_t number = std::strtoul(word.c_str() + 1, nullptr, 10);
    return number < parts_.operands.size() ? std::optional(number) : std::nullopt;
  }

  // The innermost that has the name.
  const Register* find_local(const std::string& word) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(word); found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  // Whether a register has the width of an address.
  bool is_wide(const std::string& word) const {
    if (const auto number = operand_number(word)) {
      return parts_.operands[*number].constraint == "l";
    }
    const Register* local = find_local(with_one_sign(word));
    return local != nullptr && (local->type == "uint64_t" || local->type == "int64_t");
  }

  // `[%1+4]`, as the address.
  std::string address(const std::string& operand) const {
    if (operand.size() < 3 || operand.front() != '[' || operand.back() != ']') return "";
    const auto sum = split(std::string_view(operand).substr(1, operand.size() - 2), '+');
    if (sum.empty() || sum.size() > 2 || !is_wide(sum[0])) return "";
    const std::string base = value(sum[0]), offset = sum.size() == 2 ? value(sum[1]) : "0";
    return base.empty() || offset.empty() ? "" : bits("uint64_t", base) + " + " + offset;
  }

  // `.reg .u32 a, b;`
  bool declare(const std::string& instruction, std::string* body) {
    const auto words = split(instruction, ' ');
    if (words.size() < 3 || words[1].size() < 2) return false;
    const auto type = types().find(words[1].substr(1));
    if (type == types().end()) return false;
    std::string names;
    for (size_t i = 2; i < words.size(); ++i) names += words[i];
    for (const std::string& written : split(names, ',')) {
      const std::string name = with_one_sign(written);
      const std::string word = name.substr(name.starts_with('%') ? 1 : 0);
      if (word.empty() || !std::all_of(word.begin(), word.end(), in_word)) return false;
      // With a number of its own: other scopes may have the name too, and so may a C++ name.
      const Register local = {"lambent_reg" + std::to_string(registers_++) + "_" + word,
                              type->second};
      if (!scopes_.back().emplace(name, local).second) return false;
      *body += local.type + " " + local.name + "{}; ";
    }
    return true;
  }

  // An instruction, which may have a guard, a declaration, or the begin or end of a scope.
  bool translate(std::string instruction, std::string* body) {
    std::replace_if(instruction.begin(), instruction.end(), is_space, ' ');
    if (instruction == "{") {
      scopes_.emplace_back();
      return true;
    }
    if (instruction == "}") {
      scopes_.pop_back();
      return !scopes_.empty();
    }
    if (instruction.starts_with(".reg")) return declare(instruction, body);
    if (!instruction.starts_with("@")) return perform(instruction, body);
    const size_t end = instruction.find(' ');
    if (end == std::string::npos) return false;
    const bool inverted = instruction[1] == '!';
    const std::string guard = value(instruction.substr(inverted ? 2 : 1, end - (inverted ? 2 : 1)));
    if (guard.empty()) return false;
    *body += std::string("if (") + (inverted ? "!" : "") + guard + ") { ";
    const bool known = perform(trimmed(instruction.substr(end)), body);
    *body += "} ";
    return known;
  }

  bool perform(const std::string& instruction, std::string* body) const {
    const size_t space = instruction.find(' ');
    auto modifiers = split(instruction.substr(0, space), '.');
    const auto operands = split(space == std::string::npos ? "" : instruction.substr(space), ',');
    if (modifiers.empty()) return false;
    return without_result(modifiers, operands, body) || memory(modifiers, operands, body) ||
           comparison(modifiers, operands, body) || calculation(modifiers, operands, body);
  }

  bool without_result(const std::vector<std::string>& name,
                      const std::vector<std::string>& operands, std::string* body) const {
    const std::string& first = name[0];
    if (first == "membar" || first == "fence")
      *body += "__threadfence(); ";
    else if (first == "trap")
      *body += "__trap(); ";
    else if (first == "brkpt" || first == "prefetch" || first == "prefetchu")
      *body += "";
    else if ((first == "bar" || first == "barrier") && name.size() > 1 && name[1] == "sync" &&
             operands.size() == 1 && operands[0] == "0")
      *body += "__syncthreads(); ";
    else if (first == "bar" && name.size() == 3 && name[1] == "warp" && operands.size() == 1 &&
             !value(operands[0]).empty())
      *body += "__syncwarp(" + value(operands[0]) + "); ";
    else if (first == "nanosleep" && operands.size() == 1 && !value(operands[0]).empty())
      *body += "__nanosleep(" + value(operands[0]) + "); ";
    else if (first == "activemask" && operands.size() == 1 && !value(operands[0]).empty())
      *body += std::string(kSpace) + "give(" + value(operands[0]) + ", __activemask()); ";
    else
      return false;
    return true;
  }

  // ld and st, of one number or a vector of them. Shared memory has no addresses of 32 bits here.
  bool memory(const std::vector<std::string>& name, const std::vector<std::string>& operands,
              std::string* body) const {
    const bool loads = name[0] == "ld" || name[0] == "ldu";
    if ((!loads && name[0] != "st") || operands.size() != 2) return false;
    size_t count = 1;
    for (size_t i = 1; i + 1 < name.size(); ++i) {
      if (name[i] == "v2")
        count = 2;
      else if (name[i] == "v4")
        count = 4;
      else if (!is_idle(name[i]))
        return false;
    }
    const auto type = types().find(name.back());
    const std::string where = address(operands[loads ? 1 : 0]);
    std::string what = operands[loads ? 0 : 1];
    if (type == types().end() || where.empty()) return false;
    if (count > 1) {
      if (what.size() < 2 || what.front() != '{' || what.back() != '}') return false;
      what = what.substr(1, what.size() - 2);
    }
    const auto numbers = split(what, ',');
    if (numbers.size() != count) return false;
    *body += "{ const uint64_t lambent_at = " + where + "; ";
    for (size_t i = 0; i < count; ++i) {
      const std::string number = value(numbers[i]);
      if (number.empty()) return false;
      const std::string from = "<" + type->second + ">(lambent_at, " + std::to_string(i);
      *body +=
          loads ? std::string(kSpace) + "give(" + number + ", " + std::string(kSpace) + "load" +
                      from + ")); "
                : std::string(kSpace) + "store" + from + ", " + bits(type->second, number) + "); ";
    }
    *body += "} ";
    return true;
  }

  bool comparison(const std::vector<std::string>& name, const std::vector<std::string>& operands,
                  std::string* body) const {
    static const std::set<std::string> kOrdered = {"eq", "ne", "lt", "le", "gt", "ge"};
    static const std::set<std::string> kUnsigned = {"lo", "ls", "hi", "hs"};
    static const std::set<std::string> kOfFloats = {"equ", "neu", "ltu", "leu",
                                                    "gtu", "geu", "num", "nan"};
    if (name[0] != "setp" || name.size() != 3 || operands.size() != 3) return false;
    const auto type = types().find(name[2]);
    if (type == types().end()) return false;
    const bool fits = kOrdered.contains(name[1]) ||
                      (name[2][0] == 'u' && kUnsigned.contains(name[1])) ||
                      (name[2][0] == 'f' && kOfFloats.contains(name[1]));
    if (!fits) return false;
    const std::string to = value(operands[0]), a = value(operands[1]), b = value(operands[2]);
    if (to.empty() || a.empty() || b.empty()) return false;
    *body += to + " = " + std::string(kSpace) + "setp_" + name[1] + "_<" + type->second + ">(" + a +
             ", " + b + "); ";
    return true;
  }

  bool calculation(const std::vector<std::string>& name, const std::vector<std::string>& operands,
                   std::string* body) const {
    if (operands.empty()) return false;
    std::string known = name[0];
    std::vector<std::string> numbers;  // the types
    for (size_t i = 1; i < name.size(); ++i) {
      if (types().contains(name[i]))
        numbers.push_back(types().at(name[i]));
      else if (!is_idle(name[i]))
        known += "." + name[i];
    }
    const std::string to = value(operands[0]);
    std::vector<std::string> from;
    for (size_t i = 1; i < operands.size(); ++i) from.push_back(value(operands[i]));
    if (to.empty() || numbers.empty() || std::count(from.begin(), from.end(), "") > 0) return false;
    std::string arguments;
    for (const std::string& each : from) arguments += (arguments.empty() ? "" : ", ") + each;
    std::string call;
    if ((known == "cvt" || known == "cvt.rzi") && numbers.size() == 2 && from.size() == 1) {
      call = std::string(kSpace) + with_underscores(known) + "_<" + numbers[0] + ", " + numbers[1] +
             ">(" + arguments + ")";
    } else if (known == "vabsdiff4.add" && from.size() == 3 &&
               numbers == std::vector<std::string>(3, "uint32_t")) {
      call = std::string(kSpace) + "bits<uint32_t>(" + from[2] + ") + __vsadu4(" + from[0] + ", " +
             from[1] + ")";
    } else {
      const auto found = calculations().find(known);
      if (found == calculations().end() || found->second != from.size() || numbers.size() != 1) {
        return false;
      }
      call = std::string(kSpace) + with_underscores(known) + "_<" + numbers[0] + ">(" + arguments +
             ")";
    }
    *body += std::string(kSpace) + "give(" + to + ", " + call + "); ";
    return true;
  }

  const Parts& parts_;
  std::vector<std::map<std::string, Register>> scopes_{1};  // the innermost last
  size_t registers_ = 0;
};

bool is_scope(const std::string& instruction) { return instruction == "{" || instruction == "}"; }

// What begins with a point is a directive, and the host's assembler has those as well.
bool looks_like_ptx(const std::string& text) {
  const auto instructions = instructions_of(text);
  return std::any_of(instructions.begin(), instructions.end(), [](const std::string& each) {
    const std::string first = each.substr(0, each.find(' '));
    if (first.starts_with('.')) return first == ".reg";
    return first.starts_with('@') || first.find('.') != std::string::npos || first == "trap" ||
           first == "exit" || first == "brkpt";
  });
}

}  // namespace

AsmStatement read_asm(std::string_view text, size_t at) {
  AsmStatement statement;
  at = skip_blanks(text, at);
  const size_t begin = at;
  while (at < text.size() && in_word(text[at])) at = skip_blanks(text, end_of_word(text, at));
  if (at >= text.size() || text[at] != '(') return statement;
  const size_t end = end_of_brackets(text, at);
  if (end > text.size() || end < at + 2) return statement;
  const auto parts = read_parts(text.substr(at + 1, end - at - 2));
  if (!parts) return statement;
  statement.end = end;
  const auto instructions = instructions_of(parts->text);
  statement.is_empty = std::all_of(instructions.begin(), instructions.end(), is_scope);
  statement.is_ptx = looks_like_ptx(parts->text);
  if (!statement.is_ptx) return statement;
  if (Translation(*parts).run(&statement.code, &statement.refusal)) {
    const auto lines = std::count(text.begin() + static_cast<ptrdiff_t>(begin),
                                  text.begin() + static_cast<ptrdiff_t>(end), '\n');
    statement.code.append(static_cast<size_t>(lines), '\n');
  }
  return statement;
}

}  // namespace lambent::bundle
