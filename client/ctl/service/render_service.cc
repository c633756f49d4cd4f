#include "client/ctl/service/render_service.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mlxcomm::ctl {

std::string DescribeStep(const ServiceStep& step) {
  switch (step.kind) {
    case ServiceStep::Kind::kFolder:
      return absl::StrCat("create the folder ", step.path, " if it is missing");
    case ServiceStep::Kind::kWrite: return absl::StrCat("write ", step.path);
    case ServiceStep::Kind::kCopy: return absl::StrCat("copy ", step.from, " to ", step.path);
    case ServiceStep::Kind::kMove: return absl::StrCat("move ", step.from, " to ", step.path);
    case ServiceStep::Kind::kPutBack:
      return absl::StrCat("restore ", step.path, " from ", step.from);
    case ServiceStep::Kind::kRemove: return absl::StrCat("remove ", step.path);
    case ServiceStep::Kind::kRemoveIfEmpty:
      return absl::StrCat("remove ", step.path, " if it is empty");
    case ServiceStep::Kind::kRun: return absl::StrCat("run ", absl::StrJoin(step.words, " "));
    case ServiceStep::Kind::kAwaitEnd:
      return absl::StrCat("wait until ", absl::StrJoin(step.words, " "), " fails");
    case ServiceStep::Kind::kAwaitSocket:
      return absl::StrCat("wait until mlxcommd answers at ", step.path);
    case ServiceStep::Kind::kAwaitNext:
      return "wait until mlxcommd has no clients and has become the new program";
    case ServiceStep::Kind::kAwaitStay:
      return "wait until mlxcommd confirms that it does not restart";
  }
  return {};
}

std::string RenderPlan(const ServicePlan& plan) {
  std::string text;
  for (const ServiceStep& step : plan.steps) absl::StrAppend(&text, "  ", DescribeStep(step), "\n");
  return text;
}

std::string RenderKept(const ServicePlan& plan) {
  if (plan.kept.empty()) return {};
  return absl::StrCat("Kept: ", absl::StrJoin(plan.kept, ", "), ". --purge removes these, too.\n");
}

}  // namespace mlxcomm::ctl
