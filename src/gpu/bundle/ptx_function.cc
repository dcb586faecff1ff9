#include "gpu/bundle/ptx_function.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "gpu/bundle/ptx_words.h"
#include "gpu/bundle/source_text.h"

namespace lambent::bundle::ptx {
namespace {

const std::string kCall{kSpace};

std::string joined(const std::vector<std::string>& words, const std::string& by) {
  std::string whole;
  for (const auto& each : words) whole += (whole.empty() ? "" : by) + each;
  return whole;
}

// `ld.global.v2.u32` taken apart.
struct Operation {
  std::string name;                    // ld
  std::vector<std::string> modifiers;  // behind it, without the types
  std::vector<std::string> types;      // as C++ has them
  std::vector<std::string> operands;

  bool has(std::string_view modifier) const {
    return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
  }
  // One of them.
  bool has_any(std::initializer_list<std::string_view> some) const {
    return std::any_of(some.begin(), some.end(), [&](auto each) { return has(each); });
  }
  std::string type() const { return types.empty() ? "" : types.back(); }
};

Operation take_apart(const std::string& instruction) {
  static const std::map<std::string, std::string> kSmallFloats = {{"f16", "__half"},
                                                                  {"f16x2", "__half2"},
                                                                  {"bf16", "__nv_bfloat16"},
                                                                  {"bf16x2", "__nv_bfloat162"}};
  Operation operation;
  const size_t blank = instruction.find(' ');
  for (const std::string& word : split(instruction.substr(0, blank), '.')) {
    if (operation.name.empty()) {
      operation.name = word;
    } else if (const auto type = types().find(word); type != types().end()) {
      operation.types.push_back(type->second);
    } else if (const auto small = kSmallFloats.find(word); small != kSmallFloats.end()) {
      operation.types.push_back(small->second);
    } else {
      operation.modifiers.push_back(word);
    }
  }
  if (blank != std::string::npos) operation.operands = split(instruction.substr(blank), ',');
  return operation;
}

bool is_braced(const std::string& operand) {
  return operand.size() >= 2 && operand.front() == '{' && operand.back() == '}';
}

std::vector<std::string> within(const std::string& braced) {
  return split(std::string_view(braced).substr(1, braced.size() - 2), ',');
}

// Pairs of small floats are compared one by one, which the host does not have.
bool is_pair(const std::string& type) { return type == "__half2" || type == "__nv_bfloat162"; }
std::string half_of(const std::string& pair) { return pair.substr(0, pair.size() - 1); }

class Body {
 public:
  Body(const Function& function, const Scope& scope, Lanes lanes, unsigned& sites)
      : function_(function), scope_(scope), lanes_(lanes), sites_(sites) {
    for (const auto* list : {&function.parameters, &function.results}) {
      for (const Parameter& each : *list) {
        const std::string name = cxx_name("p_", each.name);
        // A kernel has its parameters themselves, another function the addresses of its.
        own_[each.name] = kCall + "address(" + (function.is_entry ? "&" : "") + name + ")";
      }
    }
  }

  Result<FunctionCode> run() {
    find_targets();
    std::string text;
    for (const Statement& statement : function_.body) {
      switch (statement.kind) {
        case Statement::Kind::kOpen:
          text += "{\n";
          break;
        case Statement::Kind::kClose:
          text += "}\n";
          break;
        case Statement::Kind::kLabel:
          since_meeting_ = kUnknown;
          if (!tables_.contains(statement.text)) {
            text += cxx_name("l_", statement.text) + ":;\n";
          }
          break;
        case Statement::Kind::kInstruction: {
          const auto code = statement_code(statement.text);
          if (!code) return refusal(statement);
          text += *code + "\n";
        }
      }
      if (text.size() > kMostText) {
        return Error{ErrorCode::kInvalidArgument,
                     function_.name + ": the function of PTX is too large for host kernels"};
      }
    }
    std::string before;
    for (const std::string& name : specials_) {
      before += "const uint32_t " + cxx_name("s_", name) + " = " + kCall + with_underscores(name) +
                "();\n";
    }
    return FunctionCode{before + text};
  }

 private:
  using Code = std::optional<std::string>;

  // Why there is no code for a statement: INVALID_ARGUMENT where it is no PTX, UNIMPLEMENTED where
  // a GPU could do it.
  Error refusal(const Statement& statement) const {
    const std::string shown = statement.text.substr(0, 100);
    const auto error = [&](ErrorCode code, const std::string& what) {
      return Error{code, "line " + std::to_string(statement.line) + ": " + what + " (in " +
                             function_.name + "): " + shown};
    };
    std::string text = statement.text;
    if (text.starts_with("@")) text = trimmed(text.substr(std::min(text.find(' '), text.size())));
    const std::string name = text.substr(0, text.find_first_of(" ."));
    if (!text.starts_with(".") && !is_instruction(name)) {
      return error(ErrorCode::kInvalidArgument, "PTX has no such instruction");
    }
    if (const std::string unknown = undeclared_register(statement.text); !unknown.empty()) {
      return error(ErrorCode::kInvalidArgument, unknown + " is not declared");
    }
    if (name == "bra" || name == "brx") {
      return error(ErrorCode::kInvalidArgument, "a jump to a label that is not there");
    }
    if (name == "call") {
      return error(ErrorCode::kInvalidArgument,
                   "a call of what is nowhere defined, or is not supported in host kernels");
    }
    return error(ErrorCode::kUnimplemented,
                 "the instruction of PTX is not supported in host kernels");
  }

  // The first word with a percent sign that names nothing; empty if there is none. Special
  // registers that the host has not are no less PTX.
  std::string undeclared_register(const std::string& text) const {
    static const auto kList = split(
        "aggr_smem_size,clock_hi,clusterid,cluster_ctaid,cluster_ctarank,"
        "cluster_nctaid,cluster_nctarank,current_graph_exec,globaltimer_hi,"
        "globaltimer_lo,gridid,is_explicit_cluster,nclusterid,nwarpid,"
        "reserved_smem_offset_begin,reserved_smem_offset_cap,reserved_smem_offset_end,"
        "total_smem_size",
        ',');
    static const std::set<std::string, std::less<>> kOthers(kList.begin(), kList.end());
    for (size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 1)) {
      size_t end = at + 1;
      while (end < text.size() && (in_word(text[end]) || text[end] == '$')) ++end;
      const std::string word = text.substr(at, end - at), name = word.substr(1);
      const bool is_special = special_registers().contains(name) || kOthers.contains(name) ||
                              name.starts_with("envreg") || name.starts_with("pm") ||
                              (end < text.size() && text[end] == '.');
      if (!is_special && !registers_.contains(word)) return word;
    }
    return "";
  }

  // Tables of labels stand behind a label of their own: `targets: .branchtargets $L1, $L2;`
  void find_targets() {
    const std::vector<Statement>& body = function_.body;
    for (const Statement& each : body) {
      if (each.kind == Statement::Kind::kLabel) labels_.insert(each.text);
    }
    for (size_t i = 0; i + 1 < body.size(); ++i) {
      if (body[i].kind != Statement::Kind::kLabel) continue;
      const std::string& next = body[i + 1].text;
      if (next.starts_with(".branchtargets")) {
        tables_[body[i].text] = split(next.substr(14), ',');
      } else if (next.starts_with(".callprototype")) {
        tables_[body[i].text] = {};
      }
    }
  }

  Code statement_code(const std::string& text) {
    if (text.starts_with(".")) return directive(text);
    if (!text.starts_with("@")) return instruction(text);
    const size_t end = text.find(' ');
    if (end == std::string::npos) return std::nullopt;
    const auto guard = predicate(text.substr(1, end - 1));
    const auto guarded = instruction(trimmed(text.substr(end)));
    since_meeting_ = kUnknown;
    if (!guard || !guarded) return std::nullopt;
    return "if (" + *guard + ") { " + *guarded + " }";
  }

  // Registers, local arrays, parameters of a call.
  Code directive(const std::string& text) {
    if (text.starts_with(".pragma") || text.starts_with(".branchtargets") ||
        text.starts_with(".callprototype")) {
      return "";
    }
    // Blanks may be missing: `.reg.b16 x`.
    const size_t blank = text.find_first_of(" .", 1);
    if (blank == std::string::npos) return std::nullopt;
    const std::string kind = text.substr(0, blank);
    if (kind == ".reg") return registers(text.substr(blank));
    if (kind != ".local" && kind != ".param") return std::nullopt;
    const auto declared = read_declaration(text.substr(blank));
    if (!declared.ok()) return std::nullopt;
    const std::string name = cxx_name("a_", declared->name);
    own_[declared->name] = kCall + "address(" + name + ")";
    return "alignas(" + std::to_string(declared->alignment) + ") uint8_t " + name + "[" +
           std::to_string(std::max<uint64_t>(declared->bytes(), 1)) + "];";
  }

  // `.reg .b32 %r<31>;`
  Code registers(const std::string& text) {
    const std::string whole = trimmed(text);
    const size_t blank = whole.find(' ');
    if (blank == std::string::npos) return std::nullopt;
    // Small floats are kept as bits.
    static const std::map<std::string, std::string> kBits = {
        {"f16", "b16"}, {"bf16", "b16"}, {"f16x2", "b32"}, {"bf16x2", "b32"}};
    const auto bits = kBits.find(whole.substr(1, blank - 1));
    const auto type = types().find(bits == kBits.end() ? whole.substr(1, blank - 1) : bits->second);
    if (type == types().end()) return std::nullopt;
    std::vector<std::string> names;
    for (const std::string& each : split(whole.substr(blank), ',')) {
      const size_t open = each.find('<');
      const std::string stem = each.substr(0, open);
      if (open == std::string::npos) {
        names.push_back(stem);
        continue;
      }
      const size_t count = std::strtoul(each.c_str() + open + 1, nullptr, 10);
      declared_ += count;
      if (count > kMostRegisters || declared_ > kMostRegisters ||
          stem.size() * count > kMostNames) {
        return std::nullopt;
      }
      for (size_t i = 0; i < count; ++i) names.push_back(stem + std::to_string(i));
    }
    std::vector<std::string> variables;
    for (const std::string& name : names) {
      if (type->second == "bool") registers_of_predicates_.insert(name);
      registers_[name] = cxx_name("r_", name);
      variables.push_back(registers_[name]);
    }
    return variables.empty() ? "" : type->second + " " + joined(variables, ", ") + ";";
  }

  // A register, a number, a special register or the address of what has a name.
  Code value(const std::string& word) {
    if (std::string number = literal(word); !number.empty()) return number;
    if (const auto found = registers_.find(word); found != registers_.end()) return found->second;
    if (const auto found = own_.find(word); found != own_.end()) return found->second;
    if (const std::string* const found = scope_.find(word)) return *found;
    if (word == "WARP_SZ") return "32";
    if (word.starts_with("%") && special_registers().contains(word.substr(1))) {
      const std::string name = word.substr(1);
      if (name.starts_with("clock") || name.starts_with("globaltimer")) {
        return kCall + with_underscores(name) + "()";
      }
      specials_.insert(name);
      return cxx_name("s_", name);
    }
    return std::nullopt;
  }

  Code predicate(const std::string& word) {
    if (word.starts_with("!")) {
      const auto found = value(word.substr(1));
      return found ? Code("!" + *found) : found;
    }
    return value(word);
  }

  // `name<T, ...>(values)`, where an operand of each must have a value.
  Code call(const std::string& function, const std::string& arguments,
            const std::vector<std::string>& operands, size_t from) {
    std::vector<std::string> values;
    for (size_t i = from; i < operands.size(); ++i) {
      const auto each = predicate(operands[i]);
      if (!each) return std::nullopt;
      values.push_back(*each);
    }
    return kCall + function + (arguments.empty() ? "" : "<" + arguments + ">") + "(" +
           joined(values, ", ") + ")";
  }

  // The result goes to a register; `_` drops it.
  Code give(const std::string& to, const Code& from) {
    if (!from) return std::nullopt;
    if (to == "_") return *from + ";";
    const auto target = registers_.find(to);
    if (target == registers_.end()) return std::nullopt;
    return kCall + "give(" + target->second + ", " + *from + ");";
  }

  // `[%rd1+16]` of a space.
  Code address(const Operation& operation, const std::string& operand) {
    if (operand.size() < 3 || operand.front() != '[' || operand.back() != ']') return std::nullopt;
    const auto sum = split(std::string_view(operand).substr(1, operand.size() - 2), '+');
    if (sum.empty() || sum.size() > 2) return std::nullopt;
    const auto base = value(sum[0]);
    const auto offset = sum.size() == 2 ? value(sum[1]) : Code("0");
    if (!base || !offset) return std::nullopt;
    // Behind a minus sign the offset is negative, in 64 bits.
    const std::string whole =
        kCall + "bits<uint64_t>(" + *base + ") + " + kCall + "bits<uint64_t>(" + *offset + ")";
    // A block is a cluster of its own here.
    const bool shared = operation.has_any({"shared", "shared::cta", "shared::cluster"});
    return shared ? kCall + "in_shared(lambent_shared, " + whole + ")" : whole;
  }

  Code instruction(const std::string& text) {
    const Operation operation = take_apart(text);
    if (operation.name == "call" || operation.name == "cp") since_meeting_ = kUnknown;
    for (const auto read :
         {&Body::jump, &Body::memory, &Body::atomic, &Body::meeting, &Body::move, &Body::conversion,
          &Body::comparison, &Body::calculation, &Body::pair_conversion, &Body::copy_beside,
          &Body::copy_in_bulk, &Body::memory_barrier, &Body::bytes_apart}) {
      if (auto code = (this->*read)(operation)) return code;
    }
    return operation.name == "call" ? call_of(text) : std::nullopt;
  }

  Code jump(const Operation& o) {
    if (o.name == "ret") return "return;";
    if (o.name == "exit" && function_.is_entry) return "return;";
    if (o.name == "trap") return "__trap();";
    if (o.name == "bra" && o.operands.size() == 1) {
      if (!labels_.contains(o.operands[0])) return std::nullopt;
      return "goto " + cxx_name("l_", o.operands[0]) + ";";
    }
    if (o.name == "brx" && o.operands.size() == 2) {
      const auto table = tables_.find(o.operands[1]);
      const auto index = value(o.operands[0]);
      if (table == tables_.end() || !index ||
          !std::all_of(table->second.begin(), table->second.end(),
                       [&](const auto& each) { return labels_.contains(each); })) {
        return std::nullopt;
      }
      std::string code = "switch (" + *index + ") {";
      for (size_t i = 0; i < table->second.size(); ++i) {
        code += " case " + std::to_string(i) + ": goto " + cxx_name("l_", table->second[i]) + ";";
      }
      return code + " default: __builtin_unreachable(); }";
    }
    return std::nullopt;
  }

  // What an access to memory may say beside its type and `more`. Another word may mean another
  // memory (the shared one of another block) or another form.
  static bool is_known_access(const Operation& o, const std::set<std::string>& more) {
    static const std::set<std::string> kWords = {
        "volatile", "relaxed", "acquire", "release", "acq_rel", "weak",   "mmio",
        "sys",      "gpu",     "cluster", "cta",     "global",  "shared", "shared::cta"};
    return std::all_of(o.modifiers.begin(), o.modifiers.end(), [&](const std::string& each) {
      return kWords.contains(each) || more.contains(each) || each.starts_with("L1::") ||
             each.starts_with("L2::");
    });
  }

  // What stands before an access by which the lanes of a warp may hand each other values: one that
  // says volatile, in lockstep every one to what may be shared memory, and a store behind a
  // volatile load. Loads with no store since the last meeting, and stores with no load, need none.
  std::string meeting_before(const Operation& o, unsigned access) {
    if (o.has_any({"local", "param", "param::entry", "param::func", "const"})) return "";
    const bool is_volatile = o.has_any({"volatile"}), is_load = access == kLoads;
    const bool in_lockstep = lanes_ == Lanes::kInLockstep && !o.has_any({"global"});
    const unsigned others = access == kUnknown ? kUnknown : kUnknown & ~access;
    const unsigned plain_others = is_load ? 0 : kVolatileLoads;
    const bool meets = (since_meeting_ & (is_volatile || in_lockstep ? others : plain_others)) != 0;
    since_meeting_ =
        (meets ? 0 : since_meeting_) | access | (is_volatile && is_load ? kVolatileLoads : 0);
    return meets ? kCall + "come_together(" + std::to_string(++sites_) + "); " : "";
  }

  // ld and st of one number or a vector of them. What other threads may see at the same time is
  // read and written in one piece.
  Code memory(const Operation& o) {
    for (const char* idle : {"brkpt", "prefetch", "prefetchu", "discard", "applypriority"}) {
      if (o.name == idle) return "";
    }
    const bool loads = o.name == "ld" || o.name == "ldu";
    if ((!loads && o.name != "st") || o.operands.size() != 2 || o.types.empty()) {
      return std::nullopt;
    }
    static const std::set<std::string> kMore = {
        "local", "param", "param::entry", "param::func", "const", "v2", "v4", "v8",
        "nc",    "ca",    "cg",           "cs",          "cv",    "lu", "wb", "wt"};
    if (!is_known_access(o, kMore)) return std::nullopt;
    const bool in_order =
        o.has_any({"volatile", "relaxed", "acquire", "release", "mmio"}) &&
        !o.has_any({"shared", "shared::cta", "local", "param", "param::entry", "param::func"});
    const auto at = address(o, o.operands[loads ? 1 : 0]);
    if (!at) return std::nullopt;
    const std::string what = o.operands[loads ? 0 : 1];
    const auto parts = is_braced(what) ? within(what) : std::vector{what};
    // The processor reads 16 bytes in one piece, and no vector of three.
    const uint64_t bytes = Parameter{.type = o.type()}.bytes() * parts.size();
    if (in_order && (bytes > 16 || (bytes & (bytes - 1)) != 0)) return std::nullopt;
    const std::string arguments = "<" + o.type() + ", " + std::to_string(parts.size()) + ">";
    std::string code =
        meeting_before(o, loads ? kLoads : kStores) + "{ const uint64_t at = " + *at + "; ";
    if (loads) {
      code += "const auto read = " + kCall + (in_order ? "load_whole" : "load_each") + arguments +
              "(at); ";
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto given = give(parts[i], "read.part[" + std::to_string(i) + "]");
        if (!given) return std::nullopt;
        code += *given + " ";
      }
      return code + "}";
    }
    std::vector<std::string> values;
    for (const auto& part : parts) {
      const auto each = value(part);
      if (!each) return std::nullopt;
      values.push_back(kCall + "bits<" + o.type() + ">(" + *each + ")");
    }
    return code + kCall + (in_order ? "store_whole" : "store_each") + arguments + "(at, {" +
           joined(values, ", ") + "}); }";
  }

  // atom and red. No other thread runs while one is at shared memory.
  Code atomic(const Operation& o) {
    const bool reduces = o.name == "red";
    if ((!reduces && o.name != "atom") || o.types.size() != 1) return std::nullopt;
    const size_t at = reduces ? 0 : 1;
    if (o.operands.size() < at + 2 || is_braced(o.operands.back())) return std::nullopt;
    const auto place = address(o, o.operands[at]);
    static const std::set<std::string> kChanges = {"add", "inc", "dec", "min",  "max",
                                                   "and", "or",  "xor", "exch", "cas"};
    const auto change = std::find_if(o.modifiers.begin(), o.modifiers.end(),
                                     [](const auto& each) { return kChanges.contains(each); });
    if (!place || change == o.modifiers.end() || !is_known_access(o, {*change, "noftz"})) {
      return std::nullopt;
    }
    const std::string alone = o.has_any({"shared", "shared::cta"}) ? ", true" : ", false";
    std::vector<std::string> values = {*place};
    for (size_t i = at + 1; i < o.operands.size(); ++i) {
      const auto each = value(o.operands[i]);
      if (!each) return std::nullopt;
      values.push_back(kCall + "bits<" + o.type() + ">(" + *each + ")");
    }
    const std::string done =
        kCall + "atomic_" + *change + "<" + o.type() + alone + ">(" + joined(values, ", ") + ")";
    const auto code = reduces ? Code(done + ";") : give(o.operands[0], done);
    return code ? Code(meeting_before(o, kUnknown) + *code) : code;
  }

  // `%r5|%p1`, of which the second is a predicate.
  static std::pair<std::string, std::string> two_results(const std::string& operand) {
    const size_t bar = operand.find('|');
    if (bar == std::string::npos) return {operand, "_"};
    return {trimmed(operand.substr(0, bar)), trimmed(operand.substr(bar + 1))};
  }

  Code two_given(const std::string& operand, const Code& answer) {
    if (!answer) return std::nullopt;
    const auto [first, second] = two_results(operand);
    const auto one = give(first, "answer.value");
    const auto other = second == "_" ? Code("") : give(second, "answer.holds");
    if (!one || !other) return std::nullopt;
    return "{ const auto answer = " + *answer + "; " + *one + " " + *other + " }";
  }

  // Barriers, votes and what else the lanes of a warp do together.
  Code meeting(const Operation& o) {
    if (o.name == "membar" || o.name == "fence") return "__threadfence();";
    if (o.name == "nanosleep" && o.operands.size() == 1) {
      const auto time = value(o.operands[0]);
      return time ? Code("__nanosleep(" + *time + ");") : time;
    }
    if (o.name == "activemask" && o.operands.size() == 1) {
      return give(o.operands[0], "__activemask(" + std::to_string(++sites_) + ")");
    }
    if (o.name == "elect" && o.operands.size() == 2) {
      return two_given(o.operands[0], call("elect", "", o.operands, 1));
    }
    if (o.name == "bar" || o.name == "barrier") return barrier(o);
    if (o.name == "shfl" && o.operands.size() == 5 && o.has("sync")) {
      for (const char* way : {"up", "down", "bfly", "idx"}) {
        if (!o.has(way)) continue;
        return two_given(o.operands[0], call(std::string("shfl_") + way, o.type(), o.operands, 1));
      }
    }
    if (o.name == "match" && o.operands.size() == 3) {
      return two_given(o.operands[0],
                       call(o.has("any") ? "match_any" : "match_all", o.type(), o.operands, 1));
    }
    if (o.name == "vote" && o.operands.size() == 3) {
      for (const char* kind : {"ballot", "any", "all", "uni"}) {
        if (!o.has(kind)) continue;
        return give(o.operands[0], call(std::string("vote_") + kind, "", o.operands, 1));
      }
    }
    if (o.name == "redux" && o.operands.size() == 3) {
      for (const char* kind : {"add", "min", "max", "and", "or", "xor"}) {
        if (!o.has(kind)) continue;
        return give(o.operands[0], call(std::string("redux_") + kind, o.type(), o.operands, 1));
      }
    }
    return std::nullopt;
  }

  Code barrier(const Operation& o) {
    if (o.has("warp") && o.operands.size() == 1) {
      const auto mask = value(o.operands[0]);
      return mask ? Code("__syncwarp(" + *mask + ");") : mask;
    }
    if (o.operands.empty() || o.operands.size() > 4) return std::nullopt;
    if (o.has("sync")) {
      // A barrier of some of the block's threads has a number of its own, and their count.
      if (o.operands.size() == 1 && o.operands[0] == "0") return "__syncthreads();";
      if (o.operands.size() == 1) return std::nullopt;
      const auto code = call("named_barrier", "", o.operands, 0);
      return code ? Code(*code + ";") : code;
    }
    if (!o.has("red") || o.operands.size() != 3 || o.operands[1] != "0") return std::nullopt;
    const auto vote = predicate(o.operands[2]);
    if (!vote) return std::nullopt;
    for (const char* kind : {"popc", "and", "or"}) {
      if (!o.has(kind)) continue;
      return give(o.operands[0], std::string("__syncthreads_") +
                                     (kind == std::string_view("popc") ? "count" : kind) + "(" +
                                     *vote + ")");
    }
    return std::nullopt;
  }

  // mov, also into and out of the parts of a word, and addresses of another space.
  Code move(const Operation& o) {
    if (o.operands.size() != 2) return std::nullopt;
    const std::string& to = o.operands[0];
    const std::string& from = o.operands[1];
    if (o.name == "isspacep") {
      const bool shared = o.has_any({"shared", "shared::cta"});
      const auto pointer = value(from);
      if (!pointer) return pointer;
      // A thread's own memory is not told from the rest, and cuda::atomic, which asks before each
      // operation, works on it as on that. Other spaces are refused.
      if (o.has("local")) return give(to, "false");
      if (!shared) return std::nullopt;
      return give(
          to, kCall + "is_shared(lambent_shared, sizeof(lambent_shared_memory), " + *pointer + ")");
    }
    const auto known = is_braced(from) ? Code("") : value(from);
    if (!known) return std::nullopt;
    if (o.name == "cvta") {
      if (!o.has_any({"shared", "shared::cta"})) return give(to, known);
      const std::string offset = kCall + "bits<uint64_t>(" + *known + ")";
      return give(to, o.has("to") ? kCall + "to_shared(lambent_shared, " + offset + ")"
                                  : kCall + "in_shared(lambent_shared, " + offset + ")");
    }
    if (o.name != "mov") return std::nullopt;
    if (is_braced(to)) {
      const auto parts = within(to);
      std::string code =
          "{ const " + o.type() + " whole = " + kCall + "bits<" + o.type() + ">(" + *known + "); ";
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto part = give(parts[i], kCall + "part<" + std::to_string(parts.size()) + ", " +
                                             std::to_string(i) + ">(whole)");
        if (!part) return std::nullopt;
        code += *part + " ";
      }
      return code + "}";
    }
    if (!is_braced(from)) return give(to, kCall + "bits<" + o.type() + ">(" + *known + ")");
    const auto parts = within(from);
    return give(to, call("whole", o.type() + ", " + std::to_string(parts.size()), parts, 0));
  }

  // Two numbers make a pair, the first its higher half.
  Code pair_conversion(const Operation& o) {
    if (o.name != "cvt" || o.types.size() != 2 || o.operands.size() != 3) return std::nullopt;
    if (!is_pair(o.types[0]) || o.types[1] != "float" || o.modifiers.size() != 1) {
      return std::nullopt;
    }
    const std::string mode = o.has("rn") ? "'n'" : o.has("rz") ? "'z'" : "";
    if (mode.empty()) return std::nullopt;
    return give(o.operands[0],
                call("convert_pair", half_of(o.types[0]) + ", " + mode, o.operands, 1));
  }

  // Copies that a GPU makes beside the thread are made at once here, so there is nothing to wait
  // for; and kernels of a stream run one after the other.
  Code copy_beside(const Operation& o) {
    if (o.name == "griddepcontrol") return "";
    if (o.name != "cp" || !o.has("async")) return std::nullopt;
    if (o.has_any({"commit_group", "wait_group", "wait_all"})) return "";
    if (!is_known_access(o, {"async", "ca", "cg"}) || !o.has_any({"shared", "shared::cta"}) ||
        !o.has("global") || !o.types.empty()) {
      return std::nullopt;
    }
    // The last operand of .L2::cache_hint is a policy, which changes no byte; before it may stand
    // how many bytes are read.
    const bool has_policy = o.has("L2::cache_hint");
    const size_t operands = o.operands.size() - (has_policy ? 1 : 0);
    if (operands < 3 || operands > 4 || (has_policy && !value(o.operands.back()))) {
      return std::nullopt;
    }
    const std::string& read = o.operands[operands - 1];
    Operation from = o;
    std::erase_if(from.modifiers, [](const auto& each) { return each.starts_with("shared"); });
    const auto source = address(from, o.operands[1]), target = address(o, o.operands[0]);
    static const std::set<std::string> kSizes = {"4", "8", "16"};
    const auto filled = value(read);
    if (!source || !target || !kSizes.contains(literal(o.operands[2])) || !filled ||
        registers_of_predicates_.contains(read)) {
      return std::nullopt;
    }
    return kCall + "copy_and_fill<" + literal(o.operands[2]) + ">(" + *target + ", " + *source +
           ", " + *filled + ");";
  }

  // A copy of many bytes that one thread begins: into shared memory, where a barrier in memory
  // counts what has come, or out of it, which ends with the group of such copies.
  Code copy_in_bulk(const Operation& o) {
    if (o.name != "cp" || !o.has("async") || !o.has("bulk") || !o.types.empty()) {
      return std::nullopt;
    }
    static const std::vector<std::string> kPrefetch = {"async", "bulk", "prefetch", "L2", "global"};
    if (o.modifiers == kPrefetch) return "";
    const bool in = o.has("mbarrier::complete_tx::bytes"), has_policy = o.has("L2::cache_hint");
    const size_t operands = o.operands.size() - (has_policy ? 1 : 0);
    if (operands != (in ? 4u : 3u) || (!in && !o.has("bulk_group")) || !o.has("global") ||
        !is_known_access(o, {"async", "bulk", "bulk_group", "shared::cluster",
                             "mbarrier::complete_tx::bytes"})) {
      return std::nullopt;
    }
    Operation global = o;
    std::erase_if(global.modifiers, [](const auto& each) { return each.starts_with("shared"); });
    if (global.modifiers.size() + 1 != o.modifiers.size()) return std::nullopt;
    const auto to = address(in ? o : global, o.operands[0]);
    const auto from = address(in ? global : o, o.operands[1]);
    const auto bytes = value(o.operands[2]);
    if (!to || !from || !bytes) return std::nullopt;
    if (!in) return kCall + "copy_in_bulk(" + joined({*to, *from, *bytes}, ", ") + ");";
    const auto barrier = address(o, o.operands[3]);
    if (!barrier) return std::nullopt;
    return kCall + "copy_in_bulk_for(" + joined({*to, *from, *bytes, *barrier}, ", ") + ");";
  }

  // mbarrier, and what counts a thread's copies there, which have been made by then.
  Code memory_barrier(const Operation& o) {
    const bool of_copies = o.name == "cp" && o.has_any({"mbarrier"}) && o.has("arrive");
    if ((o.name != "mbarrier" && !of_copies) || o.operands.empty()) return std::nullopt;
    if (!is_known_access(o, {"init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop",
                             "noComplete", "test_wait", "try_wait", "parity", "pending_count",
                             "shared::cluster", "async", "mbarrier", "noinc"})) {
      return std::nullopt;
    }
    if (o.has("pending_count")) {
      return give(o.operands[0], call("mbarrier_pending_count", "", o.operands, 1));
    }
    const size_t at = o.operands[0].starts_with("[") ? 0 : 1;
    const auto place = at < o.operands.size() ? address(o, o.operands[at]) : std::nullopt;
    if (!place) return std::nullopt;
    if (of_copies && !o.has("noinc")) return "";
    std::vector<std::string> values = {*place};
    for (size_t i = at + 1; i < o.operands.size(); ++i) {
      const auto each = value(o.operands[i]);
      if (!each) return std::nullopt;
      values.push_back(*each);
    }
    std::string function = "mbarrier_" + (of_copies ? "arrive" : o.modifiers.front());
    for (const char* more : {"expect_tx", "parity"}) {
      if (o.has(more) && o.modifiers.front() != more) function += std::string("_") + more;
    }
    const std::string done = kCall + function + "(" + joined(values, ", ") + ")";
    return at == 0 ? Code(done + ";") : give(o.operands[0], done);
  }

  // Of four bytes at a time, and their sum where it says .add.
  Code bytes_apart(const Operation& o) {
    if (o.name != "vabsdiff4" || o.types.size() != 3 || o.operands.size() != 4) {
      return std::nullopt;
    }
    const bool adds = o.modifiers.size() == 1 && o.has("add");
    if (!adds && !o.modifiers.empty()) return std::nullopt;
    return give(o.operands[0], call(adds ? "vabsdiff4_add" : "vabsdiff4",
                                    o.types[1] + ", " + o.types[2], o.operands, 1));
  }

  Code conversion(const Operation& o) {
    if (o.name != "cvt" || o.types.size() != 2 || o.operands.size() != 2) return std::nullopt;
    if (is_pair(o.types[0]) || is_pair(o.types[1])) return std::nullopt;
    // Of numbers: how they become whole, or how they are rounded.
    std::string mode = "'n'";
    for (const std::string& each : o.modifiers) {
      if (each.size() == 3 && each.starts_with("r") && each.ends_with("i"))
        mode = std::string("'") + static_cast<char>(each[1] - 'a' + 'A') + "'";
      else if (each == "rz" || each == "rm" || each == "rp")
        mode = std::string("'") + each[1] + "'";
      else if (each != "rn" && each != "ftz" && each != "sat")
        return std::nullopt;
    }
    const std::string function = o.has("sat") ? "convert_within" : "convert_number";
    return give(o.operands[0],
                call(function, o.types[0] + ", " + o.types[1] + ", " + mode, o.operands, 1));
  }

  // setp and set, whose result may be combined with a predicate.
  Code comparison(const Operation& o) {
    if ((o.name != "setp" && o.name != "set") || o.operands.size() < 3 || o.modifiers.empty() ||
        o.types.empty()) {
      return std::nullopt;
    }
    const bool is_set = o.name == "set";
    if (is_pair(o.type()) || (is_set && is_pair(o.types.front()))) return std::nullopt;
    if (o.types.size() != (is_set ? 2u : 1u)) return std::nullopt;
    const auto compared =
        call("setp_" + o.modifiers[0] + "_", o.type(), {o.operands[1], o.operands[2]}, 0);
    if (!compared) return std::nullopt;
    std::string one = *compared, other = "!" + *compared;
    if (o.operands.size() == 4) {
      const auto third = predicate(o.operands[3]);
      const std::string sign = o.has("and") ? " & " : o.has("or") ? " | " : " ^ ";
      if (!third || (!o.has_any({"and", "or", "xor"}))) return std::nullopt;
      one = "bool(bool(" + one + ")" + sign + "bool(" + *third + "))";
      other = "bool(bool(" + other + ")" + sign + "bool(" + *third + "))";
    }
    if (is_set) {
      return give(o.operands[0], kCall + "all_ones<" + o.types[0] + ">(" + one + ")");
    }
    const auto [first, second] = two_results(o.operands[0]);
    if (second == "_") return give(first, one);
    const auto kept = give(first, "one"), turned = give(second, "other");
    if (!kept || !turned) return std::nullopt;
    return "{ const bool one = " + one + ", other = " + other + "; " + *kept + " " + *turned + " }";
  }

  Code calculation(const Operation& o) {
    if (o.operands.empty() || o.types.empty()) return std::nullopt;
    if (o.type() == "bool") return logic(o);
    std::string known = o.name, rounding;
    bool within_one = false;
    const bool is_choice = o.name == "min" || o.name == "max";
    if (is_pair(o.type()) && o.name == "abs") return std::nullopt;
    for (const std::string& each : o.modifiers) {
      if (each == "rz" || each == "rm" || each == "rp")
        rounding = each;
      else if (each == "sat")
        within_one = true;
      else if (is_choice && each == "NaN")
        known += "_nan";
      else if (!is_idle(each))
        known += "." + each;
    }
    if (is_choice && (known != o.name || is_pair(o.type()))) return choice(o, known);
    const auto found = calculations().find(known);
    if (found == calculations().end() || found->second + 1 != o.operands.size()) {
      return std::nullopt;
    }
    // One type, or the same again; dp4a reads its two factors by their own.
    const bool is_mixed = std::any_of(o.types.begin(), o.types.end(),
                                      [&](const auto& each) { return each != o.types[0]; });
    if (is_mixed && o.name != "dp4a") return std::nullopt;
    if (o.name == "dp4a" && o.types.size() != 2) return std::nullopt;
    const bool is_float = o.type() == "float";
    if (!rounding.empty() && !is_float && o.type() != "double") return std::nullopt;
    const std::string types = o.types[0] + (is_mixed ? ", " + o.types[1] : "");
    auto result = rounding.empty() ? call(with_underscores(known) + "_", types, o.operands, 1)
                                   : call(known + "_" + rounding, o.types[0], o.operands, 1);
    if (result && within_one) {
      if (!is_float) return std::nullopt;
      *result = kCall + "saturated(" + *result + ")";
    }
    return give(o.operands[0], result);
  }

  // The lesser or greater, of each half of a pair; with _nan what is no number wins.
  Code choice(const Operation& o, const std::string& name) {
    if (o.operands.size() != 3 || o.types.size() != 1 ||
        (name != o.name && name != o.name + "_nan")) {
      return std::nullopt;
    }
    if (!is_pair(o.type())) return give(o.operands[0], call(name + "_", o.type(), o.operands, 1));
    return give(o.operands[0], call(name + "_of_halves", half_of(o.type()), o.operands, 1));
  }

  // Predicates are of one bit.
  Code logic(const Operation& o) {
    const auto a = o.operands.size() > 1 ? predicate(o.operands[1]) : std::nullopt;
    if (!a) return std::nullopt;
    if (o.name == "not") return give(o.operands[0], "!" + *a);
    if (o.name == "mov") return give(o.operands[0], "bool(" + *a + ")");
    const auto b = o.operands.size() > 2 ? predicate(o.operands[2]) : std::nullopt;
    if (!b) return std::nullopt;
    const std::string sign = o.name == "and"   ? " & "
                             : o.name == "or"  ? " | "
                             : o.name == "xor" ? " ^ "
                                               : "";
    if (sign.empty()) return std::nullopt;
    return give(o.operands[0], "bool(bool(" + *a + ")" + sign + "bool(" + *b + "))");
  }

  // `call.uni (retval0), name, (param0, param1)`, or through a register, whose prototype stands
  // last.
  Code call_of(const std::string& text) {
    std::vector<std::string> results, arguments;
    std::string callee;
    size_t at = skip_blanks(text, std::min(text.find(' '), text.size()));
    const auto listed = [&](std::vector<std::string>& into) {
      const size_t end = text.find(')', at);
      if (end == std::string::npos) return false;
      into = split(std::string_view(text).substr(at + 1, end - at - 1), ',');
      at = end + 1;
      while (at < text.size() && (is_space(text[at]) || text[at] == ',')) ++at;
      return true;
    };
    if (at < text.size() && text[at] == '(' && !listed(results)) return std::nullopt;
    while (at < text.size() && text[at] != ',' && !is_space(text[at])) callee += text[at++];
    while (at < text.size() && (is_space(text[at]) || text[at] == ',')) ++at;
    if (at < text.size() && text[at] == '(' && !listed(arguments)) return std::nullopt;
    const auto function = value(callee);
    if (!function) return std::nullopt;
    std::vector<std::string> values, types;
    for (const auto* list : {&results, &arguments}) {
      for (const std::string& each : *list) {
        const auto place = value(each);
        if (!place) return std::nullopt;
        values.push_back("(uint8_t*)" + *place);
        types.emplace_back("uint8_t*");
      }
    }
    if (registers_.contains(callee)) {
      return "((void (*)(" + joined(types, ", ") + "))" + *function + ")(" + joined(values, ", ") +
             ");";
    }
    // The symbol is `address(f)`, and calling it by its name lets it be inlined.
    const size_t open = function->find('(');
    return function->substr(open + 1, function->size() - open - 2) + "(" + joined(values, ", ") +
           ");";
  }

  static constexpr size_t kMostRegisters = 1 << 17;
  static constexpr size_t kMostNames = size_t{16} << 20;  // bytes of the registers' names
  static constexpr size_t kMostText = size_t{256} << 20;

  const Function& function_;
  const Scope& scope_;
  const Lanes lanes_;
  // The accesses since the last meeting. Behind a label or a guard, where some threads were not,
  // and behind atomics and calls there may have been loads and stores.
  static constexpr unsigned kLoads = 1, kStores = 2, kUnknown = 3, kVolatileLoads = 4;
  unsigned since_meeting_ = kUnknown;
  unsigned& sites_;
  Symbols own_;  // parameters and local arrays
  std::map<std::string, std::string> registers_;
  std::set<std::string> registers_of_predicates_;
  size_t declared_ = 0;  // registers, of those with numbers
  std::map<std::string, std::vector<std::string>> tables_;
  std::set<std::string> labels_;
  std::set<std::string> specials_;
};

}  // namespace

std::string cxx_name(std::string_view prefix, std::string_view name) {
  std::string found(prefix);
  for (const char c : name) {
    if (in_word(c)) {
      found += c;
    } else if (c != '%') {
      found += '_';
    }
  }
  return found;
}

const std::string* Scope::find(std::string_view name) const {
  for (const Symbols* each : symbols) {
    if (const auto found = each->find(name); found != each->end()) return &found->second;
  }
  return nullptr;
}

Result<FunctionCode> translate(const Function& function, const Scope& scope, Lanes lanes,
                               unsigned& sites) {
  return Body(function, scope, lanes, sites).run();
}

}  // namespace lambent::bundle::ptx
