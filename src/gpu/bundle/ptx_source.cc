#include "gpu/bundle/ptx_source.h"

#include <algorithm>
#include <map>
#include <set>

#include "gpu/bundle/ptx_function.h"
#include "gpu/bundle/ptx_module.h"
#include "gpu/bundle/ptx_words.h"
#include "gpu/bundle/source_text.h"
#include "gpu/cuda_abi/device_names.h"

namespace lambent::bundle {
namespace {

using namespace ptx;

constexpr uint64_t kMostSharedBytes = 227 * 1024;
constexpr size_t kMostSource = size_t{1} << 30;
constexpr uint64_t kMostStaticBytes = 48 * 1024;
constexpr uint64_t kSharedAlignment = 1024;

// What PTX calls and the host has (lambent/host/ptx_module.h).
const std::set<std::string, std::less<>>& provided() {
  static const std::set<std::string, std::less<>> kProvided = {"vprintf", "__assertfail", "malloc",
                                                               "free"};
  return kProvided;
}

uint64_t aligned(uint64_t at, uint64_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}

// The names that stand in a text, as a compiler cuts it.
std::set<std::string> names_in(const Function& function) {
  std::set<std::string> found;
  for (const Statement& statement : function.body) {
    std::string name;
    for (const char c : statement.text + " ") {
      if (in_word(c) || c == '$') {
        name += c;
      } else if (!name.empty()) {
        found.insert(name);
        name.clear();
      }
    }
  }
  return found;
}

// Whether two modules mean the same by a name.
bool is_same(const Function& a, const Function& b) {
  const auto same = [](const Statement& x, const Statement& y) {
    return x.kind == y.kind && x.text == y.text;
  };
  return a.is_entry == b.is_entry &&
         std::equal(a.body.begin(), a.body.end(), b.body.begin(), b.body.end(), same);
}
bool is_same(const Variable& a, const Variable& b) {
  return a.space == b.space && a.shape.bytes() == b.shape.bytes() && a.initial == b.initial;
}

// A program finds what is static in a file by its name without the file's mark. Not objects without
// members, which nvcc gives a byte, as headers of its libraries have by the dozen: all are the
// same.
bool is_static(const Variable& variable) {
  const std::string& name = variable.shape.name;
  const bool is_empty =
      variable.shape.type == "uint8_t" && variable.shape.count == 1 && variable.initial.empty();
  return !is_empty && (name.starts_with("__nv_static_") || name.find("_GLOBAL__N__") != name.npos);
}

Error defined_twice(const std::string& name) {
  return Error{ErrorCode::kInvalidArgument,
               name + " is defined twice in the PTX: host kernels have one of each name"};
}

class SourceOfModules {
 public:
  SourceOfModules(const Module& module, Lanes lanes)
      : module_(module), lanes_(lanes), own_(module.modules) {}

  Result<PtxSource> run() {
    RETURN_IF_ERROR(number_functions());
    RETURN_IF_ERROR(lay_out_shared_memory());
    RETURN_IF_ERROR(declare_variables());
    RETURN_IF_ERROR(declare_functions());
    source_.text += "alignas(1024) static __thread char lambent_shared_memory[" +
                    std::to_string(aligned(static_end_, kSharedAlignment) + kMostSharedBytes) +
                    "];\n";
    for (const Function* function : defined_) RETURN_IF_ERROR(define(*function));
    return std::move(source_);
  }

 private:
  static std::string name_of(const Function& function, size_t number) {
    return (function.is_entry ? "lambent_kernel_" : "lambent_function_") + std::to_string(number);
  }

  // Of a module its own, of those that all modules see one: that which is not weak. Two that are
  // not must be the same, as modules that were not made to be linked have templates.
  template <typename Named>
  static Result<std::vector<const Named*>> kept_of(const std::vector<const Named*>& all,
                                                   const std::string& (*name)(const Named&)) {
    std::map<std::pair<size_t, std::string>, size_t> places;
    std::vector<const Named*> kept;
    for (const Named* each : all) {
      const size_t within = each->linkage == Linkage::kModule ? each->module : kNowhere;
      const auto [place, is_new] = places.try_emplace({within, name(*each)}, kept.size());
      if (is_new) {
        kept.push_back(each);
        continue;
      }
      const Named*& other = kept[place->second];
      if (each->linkage == Linkage::kWeak) continue;
      if (other->linkage != Linkage::kWeak && !is_same(*each, *other)) {
        return defined_twice(name(*each));
      }
      other = each;
    }
    return kept;
  }

  // Where the name of what was defined is looked up.
  template <typename Named>
  Symbols& symbols_of(const Named& named) {
    return named.linkage == Linkage::kModule ? own_[named.module] : common_;
  }

  Result<void> number_functions() {
    std::vector<const Function*> all;
    for (const Function& function : module_.functions) {
      if (function.has_body) all.push_back(&function);
    }
    ASSIGN_OR_RETURN(defined_,
                     kept_of<Function>(
                         all, [](const Function& each) -> const auto& { return each.name; }));
    std::set<std::string> kernels;
    for (const Function* function : defined_) {
      if (function->is_entry && !kernels.insert(cuda_abi::name_in_host_code(function->name)).second)
        return defined_twice(function->name);
      const size_t number = names_.size();
      const std::string name = names_[function] = name_of(*function, number);
      symbols_of(*function)[function->name] = std::string(kSpace) + "address(" + name + ")";
    }
    return {};
  }

  using Users = std::map<std::string, std::vector<const Function*>>;

  // The kernel that is the only one to use a variable; null where there is none. `is_used` is false
  // for what no function uses.
  const Function* only_user(const Variable& variable, const Users& users, bool& is_used) const {
    const Function* only = nullptr;
    size_t count = 0;
    if (variable.function != kNowhere) {
      only = &module_.functions[variable.function];
      count = names_.contains(only) ? 1 : 0;
    } else if (const auto found = users.find(variable.shape.name); found != users.end()) {
      for (const Function* each : found->second) {
        if (variable.linkage == Linkage::kModule && each->module != variable.module) continue;
        only = each;
        ++count;
      }
    }
    is_used = count != 0;
    return count == 1 && only->is_entry ? only : nullptr;
  }

  // Those of functions that were kept, and of modules each once.
  Result<std::vector<const Variable*>> shared_variables() const {
    std::vector<const Variable*> all, kept;
    for (const Variable& variable : module_.variables) {
      if (variable.space != Space::kShared || variable.linkage == Linkage::kExternal) continue;
      (variable.function == kNowhere ? all : kept).push_back(&variable);
    }
    ASSIGN_OR_RETURN(const auto others, kept_of<Variable>(all, name_of_variable));
    kept.insert(kept.end(), others.begin(), others.end());
    return kept;
  }

  // Variables of a single kernel lie over those of others: no two kernels share a block.
  Result<void> lay_out_shared_memory() {
    Users users;
    for (const Function* function : defined_) {
      for (const std::string& name : names_in(*function)) users[name].push_back(function);
    }
    ASSIGN_OR_RETURN(const auto variables, shared_variables());
    std::map<const Function*, uint64_t> ends;
    for (const bool common : {true, false}) {
      for (const Variable* variable : variables) {
        bool is_used = false;
        const Function* const kernel = only_user(*variable, users, is_used);
        if (!is_used || common != (kernel == nullptr)) continue;
        uint64_t& end =
            kernel == nullptr ? common_end_ : ends.try_emplace(kernel, common_end_).first->second;
        end = aligned(end, std::max<uint64_t>(variable->shape.alignment, 16));
        Symbols& symbols = variable->function == kNowhere
                               ? symbols_of(*variable)
                               : inner_[&module_.functions[variable->function]];
        symbols[variable->shape.name] = std::to_string(end) + "u";
        end += variable->shape.bytes();
        RETURN_IF_ERROR(check_shared_bytes(end - (kernel == nullptr ? 0 : common_end_), *variable));
      }
    }
    static_end_ = common_end_;
    for (const auto& [function, end] : ends) {
      shared_bytes_[function] = end;
      static_end_ = std::max(static_end_, end);
    }
    for (const Variable& variable : module_.variables) {
      if (variable.space != Space::kShared || variable.linkage != Linkage::kExternal) continue;
      common_.try_emplace(variable.shape.name,
                          std::to_string(aligned(static_end_, kSharedAlignment)) + "u");
    }
    return {};
  }

  // A GPU has no more for what is declared with a size; a few bytes lie between variables here.
  static Result<void> check_shared_bytes(uint64_t bytes, const Variable& variable) {
    if (bytes <= kMostStaticBytes + kSharedAlignment) return {};
    return Error{
        ErrorCode::kInvalidArgument,
        "the PTX declares more shared memory than the 48 KiB of a kernel: " + variable.shape.name};
  }

  static const std::string& name_of_variable(const Variable& variable) {
    return variable.shape.name;
  }

  Result<void> declare_variables() {
    std::vector<const Variable*> all;
    for (const Variable& variable : module_.variables) {
      if (variable.space == Space::kShared || variable.linkage == Linkage::kExternal) continue;
      all.push_back(&variable);
    }
    ASSIGN_OR_RETURN(const auto kept, kept_of<Variable>(all, name_of_variable));
    for (size_t i = 0; i < kept.size(); ++i) {
      symbols_of(*kept[i])[kept[i]->shape.name] =
          std::string(kSpace) + "address(lambent_variable_" + std::to_string(i) + ")";
    }
    // Its symbol is found by the name that a program gives it. What is one module's own and has the
    // name of another's (texts, `$str`) no program asks for.
    std::set<std::string> asked;
    for (const bool own : {false, true}) {
      for (size_t i = 0; i < kept.size(); ++i) {
        if (own != (kept[i]->linkage == Linkage::kModule)) continue;
        const std::string& name = kept[i]->shape.name;
        const std::string symbol = cuda_abi::name_in_host_code(name);
        const bool is_new = asked.insert(symbol).second;
        if (!is_new && (!own || is_static(*kept[i]))) return defined_twice(name);
        RETURN_IF_ERROR(declare_variable(*kept[i], i, is_new ? symbol : ""));
      }
    }
    return {};
  }

  Result<void> declare_variable(const Variable& variable, size_t number,
                                const std::string& symbol) {
    const std::string name = "lambent_variable_" + std::to_string(number);
    const uint64_t count = std::max<uint64_t>(variable.shape.count, 1);
    source_.text += "extern " + std::string(variable.is_managed ? "__managed__ " : "__device__ ") +
                    "__align__(" + std::to_string(variable.shape.alignment) + ") " +
                    variable.shape.type + " " + name + "[" + std::to_string(count) + "]" +
                    (symbol.empty() ? "" : " __asm__(\"" + symbol + "\")") + ";\n";
    ASSIGN_OR_RETURN(const std::string initial, initial_value(variable));
    definitions_ += variable.shape.type + " " + name + "[" + std::to_string(count) + "]" +
                    (initial.empty() ? "{}" : " = {" + initial + "}") + ";\n";
    return {};
  }

  // `{1, 2, generic(name)+8}`: addresses stand in words of 64 bits only.
  Result<std::string> initial_value(const Variable& variable) const {
    const Scope scope{{&own_[variable.module], &common_}};
    std::string text = variable.initial;
    if (text.size() >= 2 && text.front() == '{') text = text.substr(1, text.size() - 2);
    std::erase_if(text, [](char c) { return c == '{' || c == '}'; });
    std::string values;
    for (std::string each : split(text, ',')) {
      std::string value = literal(each);
      if (value.empty()) {
        if (each.starts_with("generic(")) each = each.substr(8);
        std::erase(each, ')');
        const size_t plus = each.find('+');
        const std::string* const symbol = scope.find(trimmed(each.substr(0, plus)));
        const std::string behind =
            plus == std::string::npos ? "0" : literal(trimmed(each.substr(plus + 1)));
        if (symbol == nullptr || behind.empty() || variable.shape.type != "uint64_t") {
          return Error{ErrorCode::kInvalidArgument,
                       "the initial value of " + variable.shape.name +
                           " in the PTX is not supported in host kernels: " + each.substr(0, 80)};
        }
        value = *symbol + " + " + behind;
      }
      values += (values.empty() ? "" : ", ") + std::string(kSpace) + "bits<" + variable.shape.type +
                ">(" + value + ")";
    }
    return values;
  }

  static std::string type_in_kernel(const Parameter& parameter) {
    if (parameter.count == 0) return parameter.type;
    return std::string(kSpace) + "Bytes<" +
           std::to_string(aligned(parameter.bytes(), parameter.alignment)) + ", " +
           std::to_string(parameter.alignment) + ">";
  }

  std::string head_of(const Function& function) const {
    std::string parameters;
    for (const auto* list : {&function.results, &function.parameters}) {
      for (const Parameter& each : *list) {
        parameters += (parameters.empty() ? "" : ", ") +
                      (function.is_entry ? type_in_kernel(each) : "uint8_t*") + " " +
                      cxx_name("p_", each.name);
      }
    }
    return std::string(function.is_entry ? "__global__" : "static") + " void " +
           names_.at(&function) + "(" + parameters + ")";
  }

  Result<void> declare_functions() {
    for (const Function& function : module_.functions) {
      if (function.has_body || !provided().contains(function.name)) continue;
      common_.try_emplace(function.name, std::string(kSpace) + "address(lambent::host::ptx::call_" +
                                             function.name + ")");
    }
    for (const Function* function : defined_) {
      if (!function->is_entry) source_.text += head_of(*function) + ";\n";
    }
    source_.text += definitions_;
    return {};
  }

  Result<void> define(const Function& function) {
    const Scope scope{{&inner_[&function], &own_[function.module], &common_}};
    ASSIGN_OR_RETURN(const auto code, translate(function, scope, lanes_, sites_));
    source_.text += head_of(function) +
                    " {\nchar* const lambent_shared = lambent_shared_memory;\n" + code.text + "}\n";
    if (source_.text.size() > kMostSource) {
      return Error{ErrorCode::kInvalidArgument, "the PTX is too large for host kernels"};
    }
    if (!function.is_entry) return {};
    const std::string name = cuda_abi::name_in_host_code(function.name);
    source_.text += "LAMBENT_KERNEL_AS(" + name + ", " + names_.at(&function) + ");\n";
    const auto shared = shared_bytes_.find(&function);
    source_.kernels.push_back({name, shared == shared_bytes_.end() ? common_end_ : shared->second,
                               function.most_threads});
    return {};
  }

  const Module& module_;
  const Lanes lanes_;
  PtxSource source_;
  std::vector<const Function*> defined_;
  std::map<const Function*, std::string> names_;  // as C++
  Symbols common_;                                // what all modules see
  std::vector<Symbols> own_;                      // what one sees
  std::map<const Function*, Symbols> inner_;      // what one function sees
  unsigned sites_ = 0;                            // of activemask
  std::string definitions_;                       // of variables
  std::map<const Function*, uint64_t> shared_bytes_;
  uint64_t common_end_ = 0;  // of shared memory that functions reach
  uint64_t static_end_ = 0;
};

}  // namespace

Result<PtxSource> source_of_ptx(const std::vector<std::string>& modules, ptx::Lanes lanes) {
  Module module;
  for (const std::string& each : modules) RETURN_IF_ERROR(read_module(each, module));
  ASSIGN_OR_RETURN(auto source, SourceOfModules(module, lanes).run());
  source.text = "#define LAMBENT_PTX_VERSION " + std::to_string(module.target) +
                "\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <lambent/kernel.h>\n"
                "#include <lambent/host/ptx_module.h>\n" +
                source.text;
  return source;
}

}  // namespace lambent::bundle
