// The verb schema describes a verb's --json. It calls no daemon.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/types/did_you_mean.h"

namespace mlxcomm::ctl {
namespace {

struct SchemaOptions {
  std::vector<std::string> verb;  // "cluster", "create"; empty: list them.
  bool json = false;
};

int RunSchema(const SchemaOptions& options) {
  const std::string wanted = absl::StrJoin(options.verb, " ");
  std::vector<std::string> names;
  for (const Verb& verb : Verbs()) {
    if (*verb.message == '\0') continue;
    names.emplace_back(verb.path);
    if (wanted != verb.path) continue;
    const auto schema = SchemaOfMessage(absl::StrCat("mlxcomm.v1.", verb.message),
                                        "mlxcommctl " + wanted + " --json");
    if (!schema) return Fail(kExitFailed, absl::StrCat("there is no message ", verb.message));
    return WriteOut(*schema, "schema");
  }
  std::ranges::sort(names);
  const std::string lines = absl::StrJoin(names, "\n") + "\n";
  if (!wanted.empty()) {
    const std::string meant = DidYouMean(wanted, names);
    std::fprintf(stderr, "mlxcommctl: no schema of \"%s\"%s one of these verbs\n%s", wanted.c_str(),
                 meant.empty() ? ": expected" : (meant + " Expected").c_str(), lines.c_str());
    return kExitUsage;
  }
  if (!options.json) return WriteOut(lines, "verbs");
  v1::SchemaList list;
  list.mutable_verbs()->Assign(names.begin(), names.end());
  return WriteOut(JsonOf(std::move(list)), "verbs");
}

}  // namespace

Run AddSchema(CLI::App& schema, const Invocation&) {
  const auto made = std::make_shared<SchemaOptions>();
  schema.add_option("verb", made->verb, "The verb (none: list the verbs that have a schema)");
  schema.add_flag("--json", made->json, "Print JSON: the verbs");
  return [made] { return RunSchema(*made); };
}

}  // namespace mlxcomm::ctl
