// Options that several verbs share, and the message for a wrong command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "client/ctl/cli/verbs.h"

namespace mlxcomm::ctl {

// Reads a number with a unit into `value`; `form` shows how to write it.
template <typename Value>
CLI::Option* AddQuantity(CLI::App& verb, const std::string& name, Value& value,
                         std::optional<std::uint64_t> (*parse)(std::string_view),
                         const std::string& form, const std::string& what) {
  const auto take = [&value, parse, name, form](const std::string& text) {
    const std::optional<std::uint64_t> parsed = parse(text);
    if (!parsed)
      throw CLI::ValidationError(name,
                                 "expected a value such as " + form + ", got \"" + text + "\"");
    value = Value{*parsed};
  };
  return verb.add_option_function<std::string>(name, take, what + ", as " + form)
      ->type_name("SIZE");
}

// Refuses an empty value, which a script passes if its variable is not set.
CLI::Validator NotEmpty(const std::string& expected);

CLI::Option* AddSocket(CLI::App& verb, std::string& socket_path);
CLI::Option* AddConfig(CLI::App& verb, std::string& config_file);

// Reads "1s" or "200ms" into `value`, from `min_ns` to `max_ns`.
CLI::Option* AddDuration(CLI::App& verb, const std::string& name, std::uint64_t& value,
                         std::uint64_t min_ns, std::uint64_t max_ns, const std::string& what);

// An option's type_name for values that --help shows and shells complete: "{sum,prod,min}".
inline std::string OneOf(const std::string& names) { return "{" + names + "}"; }

// The error, and which --help to read. See CLI::App::failure_message.
std::string UsageError(const CLI::App* app, const CLI::Error& error);

}  // namespace mlxcomm::ctl
