#include "tests/sim/planted.h"

namespace mlxcomm::sim {
namespace {

constexpr std::uint32_t kLots = 8;

Planted planted = Planted::kNone;
std::uint32_t lots = 0;

}  // namespace

void Plant(Planted bug) {
  planted = bug;
  lots = 0;
}

bool Happens(Planted bug) {
  return bug == planted && (bug != Planted::kForgetCredit || ++lots % kLots == 0);
}

}  // namespace mlxcomm::sim
