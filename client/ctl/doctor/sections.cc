#include "client/ctl/doctor/section.h"
#include "client/ctl/rdma/section.h"

namespace mlxcomm::ctl {

std::span<const Section* const> Sections() {
  static constexpr const Section* kSections[] = {&kRdmaSection};
  return kSections;
}

}  // namespace mlxcomm::ctl
