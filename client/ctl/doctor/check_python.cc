// Findings about the Python package: where results of MLX's operations come to lie.
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"

namespace mlxcomm::ctl {

void CheckPython(const Facts& facts, Findings& findings) {
  const PythonFacts& python = facts.system.python;
  const std::string object = absl::StrCat("Python package of ", python.program);
  const std::string expected = "results that lie in the daemon's memory, which MLX computes with";
  switch (python.results) {
    case ResultsKind::kNotAsked: return;
    case ResultsKind::kShared:
      findings.Add({"MC409", object, "results lie in the daemon's memory", "", "", {}});
      return;
    case ResultsKind::kCopied:
      findings.Add({"MC405",
                    object,
                    python.said,
                    expected,
                    "values are right, but each result is read and written once more, and each "
                    "input that was one (mlxcommctl status says how long that has taken). In a "
                    "virtual machine: run MLX outside of it. Else send a report: mlxcommctl "
                    "bugreport",
                    {}});
      return;
    case ResultsKind::kCopiedAsAsked:
      findings.Add({"MC406",
                    object,
                    python.said,
                    expected,
                    "unset MLXCOMM_RESULTS, if nothing here needs it: each result is read and "
                    "written once more",
                    {}});
      return;
    case ResultsKind::kWrong:
      findings.Add({"MC407",
                    object,
                    python.said,
                    "the bytes that the daemon wrote",
                    "set MLXCOMM_RESULTS=copy for all that uses MLX here, for results may be wrong "
                    "without; and send a report: mlxcommctl bugreport",
                    {}});
      return;
    case ResultsKind::kUntold:
      findings.Add({"MC408",
                    object,
                    python.said,
                    "a self test that says where results lie",
                    absl::StrCat("see what it says by hand: ", python.program,
                                 " -m mlxcomm.check_results; where it does not fit MLX or the "
                                 "daemon, install the package again"),
                    {}});
      return;
  }
}

}  // namespace mlxcomm::ctl
