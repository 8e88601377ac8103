from labeldp.signoff.auditing import Audit as Audit, audit as audit
from labeldp.signoff.describe import describe as describe
from labeldp.signoff.joint import Joint as Joint, compose as compose
from labeldp.signoff.ledger import Ledger as Ledger
from labeldp.signoff.report import plan_report as plan_report, release_report as release_report
from labeldp.signoff.report_page import page as page
from labeldp.signoff.signing import PublicKey as PublicKey, make_key as make_key, sign as sign
from labeldp.signoff.verification import Verification as Verification, verify as verify
