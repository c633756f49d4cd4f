// The verb schema: what the --json of a verb holds. It asks no daemon.
#include <cstdio>
#include <memory>
#include <vector>

#include "client/ctl/command_line.h"
#include "client/ctl/json_schema.h"
#include "client/ctl/output.h"

namespace mlxcomm::ctl {
namespace {

struct SchemaOptions {
  std::vector<std::string> verb;  // "cluster", "create"; empty: which there are.
  bool json = false;
};

int RunSchema(const SchemaOptions& options) {
  std::string verb;
  for (const std::string& word : options.verb) verb += (verb.empty() ? "" : " ") + word;
  if (!verb.empty()) {
    if (const std::optional<std::string> schema = SchemaOf(verb))
      return WriteOut(*schema, "schema");
  }
  std::string names;
  for (const VerbSchema& schema : VerbSchemas()) {
    if (options.json) {
      names += (names.empty() ? "" : ", ") + ("\"" + std::string(schema.verb) + "\"");
    } else {
      names += std::string(schema.verb) + "\n";
    }
  }
  if (verb.empty())
    return WriteOut(options.json ? "{\"verbs\": [" + names + "]}\n" : names, "schema");
  std::fprintf(stderr, "mlxcommctl: no schema of \"%s\": expected one of these verbs\n%s",
               verb.c_str(), names.c_str());
  return kExitUsage;
}

}  // namespace

Run AddSchema(CLI::App& schema, const Invocation&) {
  const auto made = std::make_shared<SchemaOptions>();
  schema.add_option("verb", made->verb, "The verb (shows which there are)");
  schema.add_flag("--json", made->json, "For programs: which verbs there are");
  return [made] { return RunSchema(*made); };
}

}  // namespace mlxcomm::ctl
