// How the values of the worker's JSON answers are shown in cells of a table. Pure functions; used
// by verbs that list.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lambent::cli {

// Text as it is, numbers in short, "-" for what is not there.
std::string cell(const nlohmann::ordered_json& row, const char* key);
// Zero for what is not there.
double number(const nlohmann::ordered_json& row, const char* key);
// The list under that key, or an empty one.
nlohmann::ordered_json list_in(const nlohmann::ordered_json& json, const char* key);
// What a function is to its user: its kind, and "model" of an HTTP function that serves one.
std::string kind_cell(const nlohmann::ordered_json& function);
// Whether the rows say on which node of a cluster each is.
bool names_nodes(const nlohmann::ordered_json& rows);
// A line for each node of a cluster that did not answer: "node c does not answer: its calls are
// missing". Empty where all did.
std::string silent_nodes_text(const nlohmann::ordered_json& answer, const std::string& what);
// "0,1" of a row with `gpus`: a sandbox, or a call, may have several. Else its `gpu`.
std::string gpus_cell(const nlohmann::ordered_json& row);
// "512 MiB", and "-" for none.
std::string bytes_cell(const nlohmann::ordered_json& row, const char* key);
// Of a number of milliseconds: "0.4 ms", "3.20 s"; "-" for what is not there.
std::string milliseconds_cell(const nlohmann::ordered_json& row, const char* key);

}  // namespace lambent::cli
