#include "client/ctl/command_line.h"

#include <stdexcept>

#include "client/ctl/quantities.h"

namespace mlxcomm::ctl {

int Verbs::Run() const {
  for (const auto& [verb, run] : verbs_) {
    if (verb->parsed()) return run();
  }
  throw std::logic_error("a verb was parsed that nothing runs");
}

void AddDuration(CLI::App& verb, const std::string& name, std::uint64_t& value,
                 std::uint64_t min_ns, std::uint64_t max_ns, const std::string& what) {
  const auto take = [&value, name, min_ns, max_ns](const std::string& text) {
    const std::optional<std::uint64_t> parsed = ParseDuration(text);
    if (!parsed || *parsed < min_ns || *parsed > max_ns) {
      throw CLI::ValidationError(name, "\"" + text + "\" is no time from " +
                                           HumanNanoseconds(min_ns) + " to " +
                                           HumanNanoseconds(max_ns) + ", such as 500ms or 2s");
    }
    value = *parsed;
  };
  verb.add_option_function<std::string>(name, take, what);
}

}  // namespace mlxcomm::ctl
