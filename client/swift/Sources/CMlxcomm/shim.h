/* The installed mlxcomm.h, for the module map beside it; where it lies is up to pkg-config, or -Xcc -I.
 *
 * Owner, Thread, Memory: as mlxcomm.h says. There is nothing else in it.
 */
#ifndef MLXCOMM_SWIFT_SHIM_H_
#define MLXCOMM_SWIFT_SHIM_H_

#include <client/lib/mlxcomm.h>

#endif /* MLXCOMM_SWIFT_SHIM_H_ */
