#include "gpu/bundle/launch_head.h"

namespace lambent::bundle {
namespace {

// From behind what closes to what opens.
bool pass_back(std::span<const Token> all, size_t& begin, size_t least, char open, char close) {
  int depth = 0;
  while (begin > least) {
    const char c = all[--begin].first;
    if (open == '<' && (c == ')' || c == ']')) {
      ++begin;
      if (!pass_back(all, begin, least, c == ')' ? '(' : '[', c)) return false;
    } else if (c == '<' && begin > least && all[begin - 1].first == '<') {
      if (open == '<') --begin;  // a shift
    } else if (c == close) {
      ++depth;
    } else if (c == open && --depth == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

size_t head_of_launch(std::span<const Token> all, std::string_view text, bool in_directive) {
  size_t least = 0;  // behind the macro that is being defined
  if (in_directive && all.size() >= 2 && all[0].first == '#') {
    least = 3;
    if (all.size() > 3 && all[3].first == '(' && all[3].at == all[2].at + all[2].length) {
      while (least < all.size() && all[least].first != ')') ++least;
      ++least;
    }
  }
  size_t begin = all.size();
  const auto is = [&](size_t back, char c) {
    return begin >= least + back && all[begin - back].first == c;
  };
  const auto is_name = [&](size_t back) {
    if (begin < least + back || !all[begin - back].is_word()) return false;
    const std::string_view word = all[begin - back].of(text);
    return word != "return" && word != "else" && word != "do" && word != "if" && word != "for" &&
           word != "while" && word != "switch" && word != "case";
  };
  for (;;) {
    if (is(1, '>')) {
      if (!pass_back(all, begin, least, '<', '>')) return std::string_view::npos;
      if (!is_name(1)) return std::string_view::npos;
    } else if (is(1, ']')) {
      if (!pass_back(all, begin, least, '[', ']')) return std::string_view::npos;
      continue;
    } else if (is(1, ')')) {
      if (!pass_back(all, begin, least, '(', ')')) return std::string_view::npos;
      if (is_name(1) || is(1, '>') || is(1, ']')) continue;
      return all[begin].at;
    }
    if (!is_name(1)) return std::string_view::npos;
    --begin;
    if (begin > least && all[begin - 1].of(text) == "template") --begin;
    if (is(1, '#') && is(2, '#') && is_name(3)) {
      begin -= 2;
    } else if (is(1, ':') && is(2, ':')) {
      if (!is_name(3) && !is(3, '>')) return all[begin - 2].at;
      begin -= 2;
    } else if (is(1, '.')) {
      --begin;
    } else if (is(1, '>') && is(2, '-')) {
      begin -= 2;
    } else {
      return all[begin].at;
    }
  }
}

}  // namespace lambent::bundle
