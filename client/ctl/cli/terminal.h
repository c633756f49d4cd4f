// Whether what goes to standard output is coloured: on a terminal that can, and not where
// NO_COLOR says no (https://no-color.org: set, and not empty).
//
// Thread: main.
#pragma once

namespace mlxcomm::ctl {

bool ColoursWanted();

}  // namespace mlxcomm::ctl
