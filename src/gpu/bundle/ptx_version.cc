#include "gpu/bundle/ptx_version.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace lambent::bundle {
namespace {

constexpr std::string_view kVersionWord = ".version ";
constexpr std::string_view kLeastVersion = "7.0";

// Words of version 7.0, with spaces between: instructions, and `generic`, which stands in initial
// values.
constexpr std::string_view kInstructions =
    " abs activemask add addc and atom bar barrier bfe bfi bfind bra brev brkpt call clz cnot "
    "copysign cos cp cvt cvta div dp2a dp4a ex2 exit fence fma fns generic isspacep ld "
    "ldmatrix ldu lg2 lop3 mad madc match max membar min mma mov mul mul24 nanosleep neg not "
    "or popc prefetch prmt rcp red redux rem ret rsqrt sad selp set setp shf shfl shl shr sin "
    "slct sqrt st sub subc suld suq sust tanh testp tex tld4 trap txq vote wmma xor ";

// What follows a point: directives, types, and what an instruction is told to do.
constexpr std::string_view kModifiers =
    " 1d 2d 3d NaN a1d a2d acq_rel acquire add address_size align aligned all and any approx "
    "arrive async attribute b16 b32 b64 b8 ballot bf16 bf16x2 bfly ca cas cg clamp col "
    "commit_group const cta ctaid cv dec down entry eq equ exch extern f16 f16x2 f32 f64 file "
    "ftz full func ge geu gl global gpu gt gtu hi hs idx inc inline l le leu lo loc local ls "
    "lt ltu lu m16n16k16 m16n8k16 m16n8k8 m32n8k16 m8n32k16 managed max maxnctapersm maxnreg "
    "maxntid min minnctapersm nan nc ne neu noftz num or param popc pragma pred r red reg "
    "relaxed release relu reqntid rm rmi rn rni row rp rpi rz rzi s16 s32 s64 s8 sat sc "
    "section shared shiftamt sync sys target tex texref tf32 to trans u16 u32 u64 u8 uni up "
    "v2 v4 version visible volatile w wait_all wait_group warp wb weak wide wrap wt x x1 x2 "
    "x4 xor y z ";

// Registers that the language has, beside those that a program names by a letter and a number.
constexpr std::string_view kRegisters =
    " SP SPL clock clock64 ctaid dynamic_smem_size globaltimer globaltimer_hi globaltimer_lo "
    "gridid laneid lanemask_eq lanemask_ge lanemask_gt lanemask_le lanemask_lt nctaid nsmid "
    "ntid nwarpid smid tid total_smem_size warpid ";

bool is_among(std::string_view words, std::string_view word) {
  return words.find(" " + std::string(word) + " ") != words.npos;
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// Its words without comments and texts, which say nothing of its version.
std::string without_comments_and_texts(std::string_view ptx) {
  std::string rest;
  while (!ptx.empty()) {
    size_t skipped = 0;
    if (ptx.starts_with("//")) skipped = ptx.find('\n');
    if (ptx.starts_with("/*")) skipped = ptx.find("*/", 2);
    if (ptx.starts_with('"')) skipped = ptx.find('"', 1);
    if (skipped == 0) rest += ptx[0];
    ptx.remove_prefix(std::min(ptx.size(), skipped == ptx.npos ? skipped : skipped + 1));
    // The second character of an end of comment is left over.
    if (skipped != 0 && ptx.starts_with('/')) ptx.remove_prefix(1);
    if (skipped != 0) rest += ' ';
  }
  return rest;
}

// As long as a word is; "L2::128B" is one.
size_t word_length(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    if (text.substr(length).starts_with("::")) {
      length += 2;
    } else if (is_of_word(text[length])) {
      ++length;
    } else {
      break;
    }
  }
  return length;
}

// Of a program are registers with letters and a number behind them.
bool is_known_register(std::string_view word) {
  if (is_among(kRegisters, word)) return true;
  const size_t letters = std::ranges::find_if(word, is_digit) - word.begin();
  return letters < word.size() && std::ranges::all_of(word.substr(letters), is_digit) &&
         word.substr(0, letters).find('_') == word.npos;
}

// What lies between two of ";", "{" and "}".
bool is_known_statement(std::string_view statement) {
  const auto trim = [&] {
    while (!statement.empty() && std::isspace(static_cast<unsigned char>(statement[0]))) {
      statement.remove_prefix(1);
    }
  };
  trim();
  if (statement.starts_with('@')) {
    statement.remove_prefix(std::min(statement.size(), statement.find_first_of(" \t\n")));
    trim();
  }
  // Some directives end with their line, and an instruction may follow.
  if (statement.starts_with('.')) {
    for (size_t line = statement.find('\n'); line != statement.npos;
         line = statement.find('\n', line + 1)) {
      const size_t begin = statement.find_first_not_of(" \t\r\n", line);
      if (begin == statement.npos || (!is_of_word(statement[begin]) && statement[begin] != '@')) {
        continue;
      }
      return is_known_statement(statement.substr(0, line)) &&
             is_known_statement(statement.substr(begin));
    }
  }
  const size_t length = word_length(statement);
  if (statement.substr(length).starts_with(':')) {
    return is_known_statement(statement.substr(length + 1));
  }
  if (length > 0 && !is_digit(statement[0]) &&
      !is_among(kInstructions, statement.substr(0, length))) {
    return false;
  }
  for (size_t at = statement.find_first_of(".%"); at != statement.npos;
       at = statement.find_first_of(".%", at + 1)) {
    const std::string_view word = statement.substr(at + 1, word_length(statement.substr(at + 1)));
    if (word.empty()) continue;  // the remainder of a division, in a constant
    if (statement.substr(at + 1 + word.size()).starts_with('<')) continue;  // any number of them
    const bool is_fraction = std::ranges::all_of(word, is_digit);
    if (statement[at] == '%' ? !is_known_register(word)
                             : !is_fraction && !is_among(kModifiers, word)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string with_least_version(std::string ptx) {
  const std::string plain = without_comments_and_texts(ptx);
  for (size_t begin = 0; begin < plain.size();) {
    const size_t end = std::min(plain.find_first_of(";{}", begin), plain.size());
    if (!is_known_statement(std::string_view(plain).substr(begin, end - begin))) return ptx;
    begin = end + 1;
  }
  const size_t line = ptx.find("\n" + std::string(kVersionWord));
  if (line == ptx.npos) return ptx;
  const size_t number = line + 1 + kVersionWord.size();
  return ptx.replace(number, std::min(ptx.find('\n', number), ptx.size()) - number, kLeastVersion);
}

}  // namespace lambent::bundle
