// Findings about the Python package: where results of MLX's operations lie.
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"

namespace mlxcomm::ctl {

void CheckPython(const Facts& facts, Findings& findings) {
  const PythonFacts& python = facts.system.python;
  const std::string object = absl::StrCat("Python package of ", python.program);
  const Findings::Values values = {{"said", python.said}, {"program", python.program}};
  switch (python.results) {
    case ResultsKind::kNotAsked: return;
    case ResultsKind::kShared: return findings.Add("MC409", object);
    case ResultsKind::kCopied: return findings.Add("MC405", object, values);
    case ResultsKind::kCopiedAsAsked: return findings.Add("MC406", object, values);
    case ResultsKind::kWrong: return findings.Add("MC407", object, values);
    case ResultsKind::kUntold: return findings.Add("MC408", object, values);
  }
}

}  // namespace mlxcomm::ctl
