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

class SourceOfModules {
 public:
  explicit SourceOfModules(const Module& module) : module_(module) {}

  Result<PtxSource> run() {
    number_functions();
    lay_out_shared_memory();
    RETURN_IF_ERROR(declare_variables());
    RETURN_IF_ERROR(declare_functions());
    source_.text += "alignas(1024) static __thread char lambent_shared_memory[" +
                    std::to_string(aligned(static_end_, kSharedAlignment) + kMostSharedBytes) +
                    "];\n";
    for (const Function* function : defined_) RETURN_IF_ERROR(define(*function));
    if (source_.kernels.empty()) {
      return Error{ErrorCode::kInvalidArgument, "the PTX has no kernels"};
    }
    return std::move(source_);
  }

 private:
  static std::string name_of(const Function& function, size_t number) {
    return (function.is_entry ? "lambent_kernel_" : "lambent_function_") + std::to_string(number);
  }

  // Each once; what several modules have (templates) is the same in all.
  void number_functions() {
    std::set<std::string> seen;
    for (const Function& function : module_.functions) {
      if (!function.has_body || !seen.insert(function.name).second) continue;
      names_[function.name] = name_of(function, defined_.size());
      symbols_[function.name] = std::string(kSpace) + "address(" + names_[function.name] + ")";
      defined_.push_back(&function);
    }
  }

  // Variables of a single kernel lie over those of others: no two kernels share a block.
  void lay_out_shared_memory() {
    std::map<std::string, std::vector<const Function*>> users;
    for (const Function* function : defined_) {
      for (const std::string& name : names_in(*function)) users[name].push_back(function);
    }
    std::map<const Function*, uint64_t> ends;
    const auto place = [&](const Variable& variable, uint64_t& end) {
      end = aligned(end, std::max<uint64_t>(variable.shape.alignment, 16));
      symbols_[variable.shape.name] = std::to_string(end) + "u";
      end += variable.shape.bytes();
    };
    for (const bool common : {true, false}) {
      for (const Variable& variable : module_.variables) {
        if (variable.space != Space::kShared || variable.is_external) continue;
        const auto& by = users[variable.shape.name];
        const bool alone = by.size() == 1 && by[0]->is_entry;
        if (common != !alone) continue;
        place(variable, alone ? ends.try_emplace(by[0], common_end_).first->second : common_end_);
      }
    }
    static_end_ = common_end_;
    for (const auto& [function, end] : ends) {
      shared_bytes_[function] = end;
      static_end_ = std::max(static_end_, end);
    }
    for (const Variable& variable : module_.variables) {
      if (variable.space != Space::kShared || !variable.is_external) continue;
      symbols_.try_emplace(variable.shape.name,
                           std::to_string(aligned(static_end_, kSharedAlignment)) + "u");
    }
  }

  Result<void> declare_variables() {
    std::set<std::string> defined;
    std::string definitions;
    std::vector<const Variable*> kept;
    for (const Variable& variable : module_.variables) {
      if (variable.space == Space::kShared || variable.is_external) continue;
      if (!defined.insert(variable.shape.name).second) continue;
      symbols_[variable.shape.name] =
          std::string(kSpace) + "address(lambent_variable_" + std::to_string(kept.size()) + ")";
      kept.push_back(&variable);
    }
    for (size_t i = 0; i < kept.size(); ++i) {
      const Variable& variable = *kept[i];
      const std::string name = "lambent_variable_" + std::to_string(i);
      const uint64_t count = std::max<uint64_t>(variable.shape.count, 1);
      // Its symbol is found by the name that a program gives it.
      source_.text += "extern " +
                      std::string(variable.is_managed ? "__managed__ " : "__device__ ") +
                      "__align__(" + std::to_string(variable.shape.alignment) + ") " +
                      variable.shape.type + " " + name + "[" + std::to_string(count) +
                      "] __asm__(\"" + cuda_abi::name_in_host_code(variable.shape.name) + "\");\n";
      ASSIGN_OR_RETURN(const std::string initial, initial_value(variable));
      definitions += variable.shape.type + " " + name + "[" + std::to_string(count) + "]" +
                     (initial.empty() ? "{}" : " = {" + initial + "}") + ";\n";
    }
    definitions_ = definitions;
    return {};
  }

  // `{1, 2, generic(name)+8}`: addresses stand in words of 64 bits only.
  Result<std::string> initial_value(const Variable& variable) const {
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
        const auto symbol = symbols_.find(trimmed(each.substr(0, plus)));
        if (symbol == symbols_.end() || variable.shape.type != "uint64_t") {
          return Error{ErrorCode::kInvalidArgument,
                       "the initial value of " + variable.shape.name +
                           " in the PTX is not supported in host kernels: " + each.substr(0, 80)};
        }
        value = symbol->second + (plus == std::string::npos ? "" : each.substr(plus));
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
           names_.at(function.name) + "(" + parameters + ")";
  }

  Result<void> declare_functions() {
    for (const Function& function : module_.functions) {
      if (names_.contains(function.name)) continue;
      if (!provided().contains(function.name)) continue;
      symbols_[function.name] =
          std::string(kSpace) + "address(lambent::host::ptx::call_" + function.name + ")";
    }
    for (const Function* function : defined_) {
      if (!function->is_entry) source_.text += head_of(*function) + ";\n";
    }
    source_.text += definitions_;
    return {};
  }

  Result<void> define(const Function& function) {
    ASSIGN_OR_RETURN(const auto code, translate(function, symbols_));
    source_.text += head_of(function) +
                    " {\nchar* const lambent_shared = lambent_shared_memory;\n" + code.text + "}\n";
    if (!function.is_entry) return {};
    const std::string name = cuda_abi::name_in_host_code(function.name);
    source_.text += "LAMBENT_KERNEL_AS(" + name + ", " + names_[function.name] + ");\n";
    const auto shared = shared_bytes_.find(&function);
    source_.kernels.push_back({name, shared == shared_bytes_.end() ? common_end_ : shared->second});
    return {};
  }

  const Module& module_;
  PtxSource source_;
  std::vector<const Function*> defined_;
  std::map<std::string, std::string> names_;  // of the functions, as C++
  Symbols symbols_;
  std::string definitions_;  // of variables
  std::map<const Function*, uint64_t> shared_bytes_;
  uint64_t common_end_ = 0;  // of shared memory that functions reach
  uint64_t static_end_ = 0;
};

}  // namespace

Result<PtxSource> source_of_ptx(const std::vector<std::string>& modules) {
  Module module;
  for (const std::string& each : modules) RETURN_IF_ERROR(read_module(each, module));
  ASSIGN_OR_RETURN(auto source, SourceOfModules(module).run());
  source.text = "#define LAMBENT_PTX_VERSION " + std::to_string(module.target) +
                "\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <lambent/kernel.h>\n"
                "#include <lambent/host/ptx_module.h>\n" +
                source.text;
  return source;
}

}  // namespace lambent::bundle
