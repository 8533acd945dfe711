//! Constants of libjpeg's accurate integer transform ("islow"), with 13 bits of fraction: `F_0_298` is 0.298.

pub(super) const F_0_298: i32 = 2446;
pub(super) const F_0_390: i32 = 3196;
pub(super) const F_0_541: i32 = 4433;
pub(super) const F_0_765: i32 = 6270;
pub(super) const F_0_899: i32 = 7373;
pub(super) const F_1_175: i32 = 9633;
pub(super) const F_1_501: i32 = 12299;
pub(super) const F_1_847: i32 = 15137;
pub(super) const F_1_961: i32 = 16069;
pub(super) const F_2_053: i32 = 16819;
pub(super) const F_2_562: i32 = 20995;
pub(super) const F_3_072: i32 = 25172;
