// RequestReader: one JSON request being read. A part of RequestCodec, used only by request.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decide/kernel_graph/json_reader.h"
#include "decide/kernel_graph/request.h"

namespace lambent::kernel_graph {

class RequestReader {
 public:
  RequestReader(const RequestCodec& codec, std::string_view payload)
      : codec_(codec), json_(payload) {}

  Result<Request> read();

 private:
  using Tensor = RequestCodec::Tensor;

  // What one entry of "inputs" has said so far.
  struct Entry {
    size_t number = 0;  // its place in the list
    uint32_t seen = 0;  // keys, as find_key() counts them
    const Tensor* tensor = nullptr;
    std::unique_ptr<Tensor>
        part;  // of a graph with variants, once its shape is known: its elements
    uint32_t buffer = 0;
    std::string datatype;
    std::optional<std::vector<uint64_t>> shape;
    std::optional<ObjectId> object;
    std::optional<size_t> data_at;  // "data" came before the name
    std::string_view bytes;
    bool has_data = false;
  };

  Result<void> read_inputs();
  Result<void> read_input(size_t number);
  Result<void> read_input_key(std::string_view key, Entry& entry);
  Result<void> read_object_reference(Entry& entry);
  Result<void> finish_input(Entry& entry);
  // Of a graph with variants: how many elements this input brings, which all have to bring.
  Result<void> take_elements(Entry& entry);
  Result<void> read_outputs();
  Result<void> read_output(size_t number);
  Result<void> read_output_parameters(const std::string& place, RequestOutput& output);

  // The key's index among the known ones. `seen` has a bit for each that came already.
  Result<size_t> find_key(std::string_view key, std::span<const std::string_view> known,
                          uint32_t& seen, const std::string& place) const;
  Result<const Tensor*> find_tensor(std::string_view name, bool input, const std::string& place,
                                    uint32_t& buffer) const;
  Result<std::vector<uint64_t>> read_shape(const std::string& place);

  // Fill `entry.bytes`; the tensor is known.
  Result<void> read_data(Entry& entry);
  Result<void> read_base64(Entry& entry);
  Result<void> read_elements(const Entry& entry, char* out);
  // `out` is where the tensor begins, `done` how many elements of it are there already.
  Result<void> read_nested(const Entry& entry, size_t dimension, size_t& done, char* out);
  Result<void> read_row(const Entry& entry, uint64_t count, size_t& done, char* out);

  // INVALID_ARGUMENT: the mistake of the text, if there was one, or else `what`.
  Error problem(const std::string& place, const std::string& what) const;
  static std::string input_place(const Entry& entry, std::string_view key);

  const RequestCodec& codec_;
  JsonReader json_;
  Request request_;
  bool has_elements_ = false;  // an input has said how many
  std::vector<bool> given_;    // by number of the input
  std::vector<bool> wanted_;   // by number of the output
};

}  // namespace lambent::kernel_graph
