#include "gpu/bundle/ptx_words.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "gpu/bundle/source_text.h"

namespace lambent::bundle::ptx {

std::string trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string current;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c == by && depth == 0) {
      parts.push_back(trimmed(current));
      current.clear();
    } else {
      current += c;
    }
  }
  if (!trimmed(current).empty()) parts.push_back(trimmed(current));
  return parts;
}

std::string without_comments(std::string_view text) {
  std::string found;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      const size_t end = end_of_literal(text, i);
      found += text.substr(i, end - i);
      i = end - 1;
    } else if (starts(text, i, "//") || starts(text, i, "/*")) {
      const size_t end = end_of_comment(text, i);
      found += ' ';
      // Lines keep their numbers.
      found.append(static_cast<size_t>(std::count(text.begin() + i, text.begin() + end, '\n')),
                   '\n');
      i = end - 1;
    } else {
      found += text[i];
    }
  }
  return found;
}

namespace {

// Integers of PTX have 64 bits, and what is done with them wraps. C++ would read a hexadecimal one
// of 32 bits as unsigned, and its negative as one of 32 bits too.
std::string integer(uint64_t bits, bool is_negative) {
  if (is_negative) {
    const int64_t value = static_cast<int64_t>(bits);
    // C++ has no literal for the least number.
    return value == INT64_MIN ? "(-9223372036854775807 - 1)" : std::to_string(value);
  }
  if (bits > INT64_MAX) return std::to_string(bits) + "ull";
  return std::to_string(bits) + (bits > INT32_MAX && bits <= UINT32_MAX ? "u" : "");
}

}  // namespace

std::string literal(std::string word) {
  const bool is_negative = word.starts_with("-");
  if (is_negative) word.erase(0, 1);
  if (word.empty() || !isdigit(static_cast<unsigned char>(word[0]))) return "";
  const std::string sign = is_negative ? "-" : "";
  const std::string prefix = word.substr(0, 2), digits = word.size() > 2 ? word.substr(2) : "";
  const auto are_digits = [&](size_t count) {
    return digits.size() == count &&
           digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  };
  if (prefix == "0f" || prefix == "0F") {
    return are_digits(8) ? sign + std::string(kSpace) + "bits<float>(0x" + digits + "u)" : "";
  }
  if (prefix == "0d" || prefix == "0D") {
    return are_digits(16) ? sign + std::string(kSpace) + "bits<double>(0x" + digits + "ull)" : "";
  }
  if (word.ends_with('U')) word.pop_back();
  char* end = nullptr;
  if (word.find('.') != std::string::npos) {
    std::strtod(word.c_str(), &end);
    return *end == 0 ? sign + word : "";
  }
  const bool is_binary = prefix == "0b" || prefix == "0B";
  const bool is_hex = prefix == "0x" || prefix == "0X";
  const size_t behind = is_binary || is_hex ? 2 : 0;
  if (word.size() == behind || !std::isxdigit(static_cast<unsigned char>(word[behind]))) return "";
  errno = 0;
  const uint64_t size = std::strtoull(word.c_str() + behind, &end,
                                      is_binary        ? 2
                                      : is_hex         ? 16
                                      : word[0] == '0' ? 8
                                                       : 10);
  if (*end != 0 || errno != 0) return "";
  return integer(is_negative ? 0 - size : size, is_negative);
}

const std::map<std::string, std::string>& types() {
  static const std::map<std::string, std::string> kTypes = {
      {"u8", "uint8_t"}, {"u16", "uint16_t"}, {"u32", "uint32_t"}, {"u64", "uint64_t"},
      {"s8", "int8_t"},  {"s16", "int16_t"},  {"s32", "int32_t"},  {"s64", "int64_t"},
      {"b8", "uint8_t"}, {"b16", "uint16_t"}, {"b32", "uint32_t"}, {"b64", "uint64_t"},
      {"f32", "float"},  {"f64", "double"},   {"pred", "bool"}};
  return kTypes;
}

bool is_idle(const std::string& modifier) {
  static const std::set<std::string> kIdle = {
      "approx", "full", "ftz", "rn",  "volatile", "relaxed", "acquire", "release", "acq_rel",
      "sc",     "weak", "sys", "gpu", "cta",      "global",  "nc",      "ca",      "cg",
      "cs",     "cv",   "lu",  "wb",  "wt",       "to",      "aligned", "uni"};
  return kIdle.contains(modifier) || modifier.starts_with("L1::") || modifier.starts_with("L2::");
}

const std::map<std::string, size_t>& calculations() {
  static const std::map<std::string, size_t> kCalculations = {
      {"mov", 1},         {"not", 1},         {"neg", 1},
      {"abs", 1},         {"popc", 1},        {"clz", 1},
      {"brev", 1},        {"bfind", 1},       {"bfind.shiftamt", 1},
      {"ex2", 1},         {"lg2", 1},         {"rcp", 1},
      {"rsqrt", 1},       {"sqrt", 1},        {"sin", 1},
      {"cos", 1},         {"tanh", 1},        {"cvta", 1},
      {"add", 2},         {"sub", 2},         {"mul", 2},
      {"mul.lo", 2},      {"mul.hi", 2},      {"mul.wide", 2},
      {"div", 2},         {"rem", 2},         {"min", 2},
      {"max", 2},         {"and", 2},         {"or", 2},
      {"xor", 2},         {"shl", 2},         {"shr", 2},
      {"add.cc", 2},      {"addc", 2},        {"addc.cc", 2},
      {"sub.cc", 2},      {"subc", 2},        {"subc.cc", 2},
      {"fma", 3},         {"mad.lo", 3},      {"mad.hi", 3},
      {"mad.wide", 3},    {"mad.lo.cc", 3},   {"mad.hi.cc", 3},
      {"madc.lo", 3},     {"madc.hi", 3},     {"madc.lo.cc", 3},
      {"madc.hi.cc", 3},  {"sad", 3},         {"bfe", 3},
      {"prmt", 3},        {"shf.l.wrap", 3},  {"shf.r.wrap", 3},
      {"shf.l.clamp", 3}, {"shf.r.clamp", 3}, {"selp", 3},
      {"bmsk.clamp", 2},  {"bmsk.wrap", 2},   {"copysign", 2},
      {"mul24.lo", 2},    {"cnot", 1},        {"dp4a", 3},
      {"bfi", 4},         {"lop3", 4}};
  return kCalculations;
}

const std::set<std::string>& special_registers() {
  static const std::set<std::string> kRegisters = {
      "laneid",      "warpid",      "smid",        "nsmid",       "lanemask_eq",
      "lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge", "clock",
      "clock64",     "globaltimer", "tid.x",       "tid.y",       "tid.z",
      "ntid.x",      "ntid.y",      "ntid.z",      "ctaid.x",     "ctaid.y",
      "ctaid.z",     "nctaid.x",    "nctaid.y",    "nctaid.z",    "dynamic_smem_size"};
  return kRegisters;
}

bool is_instruction(const std::string& name) {
  static const std::set<std::string> kInstructions = {
      "abs",          "activemask",    "add",       "addc",       "alloca",
      "and",          "applypriority", "atom",      "bar",        "barrier",
      "bfe",          "bfi",           "bfind",     "bmsk",       "bra",
      "brev",         "brkpt",         "brx",       "call",       "clusterlaunchcontrol",
      "clz",          "cnot",          "copysign",  "cos",        "cp",
      "createpolicy", "cvt",           "cvta",      "discard",    "div",
      "dp2a",         "dp4a",          "elect",     "ex2",        "exit",
      "fence",        "fma",           "fns",       "getctarank", "griddepcontrol",
      "isspacep",     "istypep",       "ld",        "ldmatrix",   "ldu",
      "lg2",          "lop3",          "mad",       "mad24",      "madc",
      "mapa",         "match",         "max",       "mbarrier",   "membar",
      "min",          "mma",           "mov",       "movmatrix",  "mul",
      "mul24",        "multimem",      "nanosleep", "neg",        "not",
      "or",           "pmevent",       "popc",      "prefetch",   "prefetchu",
      "prmt",         "rcp",           "red",       "redux",      "rem",
      "ret",          "rsqrt",         "sad",       "selp",       "set",
      "setmaxnreg",   "setp",          "shf",       "shfl",       "shl",
      "shr",          "sin",           "slct",      "sqrt",       "st",
      "stackrestore", "stacksave",     "stmatrix",  "sub",        "subc",
      "suld",         "suq",           "sured",     "sust",       "szext",
      "tanh",         "tcgen05",       "tensormap", "testp",      "tex",
      "tld4",         "trap",          "txq",       "vabsdiff",   "vabsdiff2",
      "vabsdiff4",    "vadd",          "vadd2",     "vadd4",      "vavrg2",
      "vavrg4",       "vmad",          "vmax",      "vmax2",      "vmax4",
      "vmin",         "vmin2",         "vmin4",     "vote",       "vset",
      "vset2",        "vset4",         "vshl",      "vshr",       "vsub",
      "vsub2",        "vsub4",         "wgmma",     "wmma",       "xor"};
  return kInstructions.contains(name);
}

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace lambent::bundle::ptx
